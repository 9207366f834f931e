package pages

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/operate"
)

// Fields of the list of methods in the form of an integration.
const (
	MethodsOrder = "methods_order" // names separated by blanks, including methods that are off
	MethodsMove  = "move"          // the button that was pressed: a name, a blank, and up or down
	switchedOn   = "on"
	moveUp       = "up"
	moveDown     = "down"
)

// SwitchField returns the name of the field that switches a method on.
func SwitchField(method string) string { return "methods." + method }

// overrideField returns the name of the field of a method's setting.
func overrideField(method, setting string) string { return "method_settings." + method + "." + setting }

// choiceField returns the name of the field of one value of a setting.
func choiceField(method, setting string, n int) string {
	return overrideField(method, setting) + "." + strconv.Itoa(n)
}

// MethodFields returns the names of all fields of the list of methods.
func MethodFields(methods []operate.Method) []string {
	all := []string{MethodsOrder, MethodsMove}
	for _, m := range methods {
		all = append(all, SwitchField(m.Name))
		for _, s := range m.Overrides {
			all = append(all, overrideField(m.Name, s.Name))
			for n := range s.Values {
				all = append(all, choiceField(m.Name, s.Name, n))
			}
		}
	}
	return all
}

// ReadMethods returns the names of the methods that a form switches on, in their order. ok is false if the
// form has no list, or if a switch has another value, which browsers do not send.
func ReadMethods(form url.Values, methods []operate.Method) (names []string, ok bool) {
	if !form.Has(MethodsOrder) {
		return nil, false
	}
	names = []string{}
	for _, name := range orderOf(form.Get(MethodsOrder), methods) {
		switch {
		case form.Get(SwitchField(name)) == switchedOn:
			names = append(names, name)
		case form.Has(SwitchField(name)):
			return nil, false
		}
	}
	return names, true
}

// orderOf returns the names of all methods: first those in order, then the others in the service's order.
func orderOf(order string, methods []operate.Method) []string {
	var names []string
	add := func(name string) {
		known := slices.ContainsFunc(methods, func(m operate.Method) bool { return m.Name == name })
		if known && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for name := range strings.FieldsSeq(order) {
		add(name)
	}
	for _, m := range methods {
		add(m.Name)
	}
	return names
}

// Moved returns the order after a button of the list was pressed, and the name of the method that has moved.
func Moved(order, move string, methods []operate.Method) (next, name string) {
	names := orderOf(order, methods)
	name, direction, _ := strings.Cut(move, " ")
	at := slices.Index(names, name)
	to := at - 1
	if direction == moveDown {
		to = at + 1
	}
	if at >= 0 && to >= 0 && to < len(names) {
		names[at], names[to] = names[to], names[at]
	}
	return strings.Join(names, " "), name
}

// ReadOverrides returns the settings of the methods with these names, as a form has them. If a value is not a
// number, wrong contains the field with an error text.
func ReadOverrides(form url.Values, methods []operate.Method, names []string) (
	settings map[string]json.RawMessage, wrong map[string]string) {
	settings, wrong = map[string]json.RawMessage{}, map[string]string{}
	for _, m := range methods {
		var members []string
		for _, s := range m.Overrides {
			field := overrideField(m.Name, s.Name)
			value := ""
			if s.Values != nil {
				value = chosenOf(form, m.Name, s.Name, s.Values)
			} else if text := strings.TrimSpace(form.Get(field)); text != "" {
				// A comma is the decimal mark of many languages.
				if value = strings.Replace(text, ",", ".", 1); !isNumber(value) {
					wrong[field] = "Enter a number, such as 3 or 2.5."
				}
			}
			if value != "" {
				members = append(members, strconv.Quote(s.Name)+":"+value)
			}
		}
		if members != nil && slices.Contains(names, m.Name) {
			settings[m.Name] = json.RawMessage("{" + strings.Join(members, ",") + "}")
		}
	}
	return settings, wrong
}

// isNumber reports whether text is a JSON number.
func isNumber(text string) bool {
	return strings.Trim(text, "-0123456789.") == "" && json.Valid([]byte(text))
}

// chosenOf returns the values that a form chooses, as a JSON array. If all or none are chosen, it returns "".
func chosenOf(form url.Values, method, setting string, values []string) string {
	chosen := []string{}
	for n, value := range values {
		if form.Get(choiceField(method, setting, n)) == switchedOn {
			chosen = append(chosen, value)
		}
	}
	if len(chosen) == 0 || len(chosen) == len(values) {
		return ""
	}
	b, err := json.Marshal(chosen)
	if err != nil {
		return ""
	}
	return string(b)
}

// listed is one method in the form of an integration.
type listed struct {
	operate.Method
	On          bool
	First, Last bool
	Settings    []listedSetting

	focus string // the button that was pressed: up or down
}

// listedSetting is a setting of a method, as a number or as choices.
type listedSetting struct {
	Input
	Choices []choice
}

type choice struct {
	Name, Value string
	On          bool
}

// listOf returns the methods of the service for the form: those of the integration first, in their order.
func listOf(f *Frame, action string, d IntegrationData) []listed {
	form, typed := f.Form.Values, f.Form.Action == action && f.Form.Values.Has(MethodsOrder)
	offers := d.Offers()
	if d.ID == "" && d.Method == "" {
		offers = nil
	}
	order := strings.Join(offers, " ")
	if typed {
		order = form.Get(MethodsOrder)
	}
	names := orderOf(order, d.Methods)
	moved, direction, _ := strings.Cut(form.Get(MethodsMove), " ")
	var all []listed
	for n, name := range names {
		at := slices.IndexFunc(d.Methods, func(m operate.Method) bool { return m.Name == name })
		m := listed{Method: d.Methods[at], First: n == 0, Last: n == len(names)-1}
		m.On = slices.Contains(offers, name)
		if typed {
			m.On = form.Get(SwitchField(name)) == switchedOn
		}
		if typed && name == moved {
			m.focus = direction
			if m.First {
				m.focus = moveDown
			} else if m.Last {
				m.focus = moveUp
			}
		}
		for _, s := range m.Overrides {
			present := valueOf(d.MethodSettings[name], s.Name)
			in := Input{Name: overrideField(name, s.Name), Label: s.Label, Hint: s.Hint}
			if s.Values == nil {
				in.Value, in.Placeholder, in.Optional = present, s.Default, true
				in.Hint += " Leave empty for the default: " + s.Default + "."
			}
			setting := listedSetting{Input: f.input(action, in)}
			for i, value := range s.Values {
				c := choice{choiceField(name, s.Name, i), value, isChosen(present, value)}
				if typed {
					c.On = form.Get(c.Name) == switchedOn
				}
				setting.Choices = append(setting.Choices, c)
			}
			m.Settings = append(m.Settings, setting)
		}
		all = append(all, m)
	}
	return all
}

// valueOf returns the JSON text of a field of an object, or "" if it is absent.
func valueOf(object json.RawMessage, field string) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return ""
	}
	return string(fields[field])
}

// isChosen reports whether the JSON list has the value. Without a list, every value counts.
func isChosen(list, value string) bool {
	if list == "" {
		return true
	}
	var values []string
	return json.Unmarshal([]byte(list), &values) == nil && slices.Contains(values, value)
}

// order returns the field MethodsOrder for the list.
func order(list []listed) string {
	var names []string
	for _, m := range list {
		names = append(names, m.Name)
	}
	return strings.Join(names, " ")
}

// about describes a method in a list.
func (m listed) about(dev bool) string {
	text := m.Kind + ", up to " + m.Level
	if m.Sandbox || dev {
		text += ", verifies no user"
	}
	return text
}

// gone returns the methods of an integration that the service does not have.
func gone(d IntegrationData) (names []string) {
	for _, name := range d.Offers() {
		configured := func(m operate.Method) bool { return m.Name == name }
		if name != "" && !slices.ContainsFunc(d.Methods, configured) {
			names = append(names, name)
		}
	}
	return names
}

// overridden returns the settings of methods as text, one method per line.
func overridden(i *integration.Integration) string {
	var lines []string
	for _, name := range i.Offers() {
		var fields map[string]json.RawMessage
		if json.Unmarshal(i.MethodSettings[name], &fields) != nil || len(fields) == 0 {
			continue
		}
		var parts []string
		for field, value := range fields {
			var values []string
			text := string(value)
			if json.Unmarshal(value, &values) == nil {
				text = strings.Join(values, ", ")
			}
			parts = append(parts, strings.ReplaceAll(field, "_", " ")+" "+text)
		}
		slices.Sort(parts)
		lines = append(lines, name+": "+strings.Join(parts, "; "))
	}
	return strings.Join(lines, "\n")
}
