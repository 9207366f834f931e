package admin

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/operate"
)

var update = flag.Bool("update", false, "write openapi.yaml")

// TestOpenAPI_Generated makes openapi.yaml from openapi.base.yaml, from the table of operations with its
// comments, and from the types of their inputs and outputs.
func TestOpenAPI_Generated(t *testing.T) {
	text, err := os.ReadFile("openapi.base.yaml")
	coretest.Must(t, err)
	d := description31{comments: commentsOf(t, "../operate/table.go"), seen: map[string]bool{}}
	coretest.Must(t, yaml.Unmarshal(text, &d.base))
	paths, schemas := d.paths(), d.schemas()
	made := string(text[strings.Index(string(text), "openapi: "):])
	made, _, _ = strings.Cut(made, "\n# Fields of types")
	for marker, lines := range map[string]string{
		"    # The schemas of inputs and outputs are generated from their types.\n":          schemas,
		"  # The paths of the operations are generated from the table of package operate.\n": paths,
	} {
		if strings.Count(made, marker) != 1 {
			t.Fatalf("openapi.base.yaml has not one line %q", marker)
		}
		made = strings.Replace(made, marker, lines, 1)
	}
	if *update {
		coretest.Must(t, os.WriteFile("openapi.yaml", []byte(made), 0o644))
		return
	}
	if made != string(openAPI) {
		t.Error("openapi.yaml is not what its sources make; run go generate ./core/admin")
	}
}

// commentsOf returns the comments of the variables of a file.
func commentsOf(t *testing.T, path string) map[string]string {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	coretest.Must(t, err)
	all := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.ValueSpec); ok && s.Doc != nil {
			all[strings.ToLower(s.Names[0].Name)] = s.Doc.Text()
		}
		return true
	})
	return all
}

// description31 makes the generated parts of the description.
type description31 struct {
	base struct {
		Components struct {
			Parameters map[string]parameter
			Schemas    map[string]any
		}
		Content map[string]map[string]any `yaml:"x-content"`
		Fields  map[string]map[string]any `yaml:"x-fields"`
	}
	comments map[string]string // of the operations, by their names in lower case
	written  strings.Builder   // schemas
	seen     map[string]bool
}

type parameter struct {
	Name, In string
	Required bool
}

// tags are the tags of the operations, by the first segment of their paths below the prefix.
var tags = map[string]string{"publishers": "Publishers", "passkeys": "Publishers",
	"integrations": "Integrations", "keys": "Keys", "deliveries": "Deliveries", "undelivered": "Deliveries",
	"sessions": "Sessions", "usage": "Sessions", "members": "Members", "invitations": "Members",
	"links": "Members", "operators": "Operators", "audit": "Operators"}

func (d *description31) paths() string {
	byPath, order := map[string]string{}, []string{}
	for _, e := range operate.Endpoints() {
		method, path, _ := e.Route()
		at := path
		if before, rest, found := strings.Cut(path, "{"); found {
			_, after, _ := strings.Cut(rest, "}")
			at = before + "{" + d.placeholder(path).Name + "}" + after
		}
		if byPath[at] == "" {
			order = append(order, at)
			byPath[at] = "  " + at + ":\n"
		}
		byPath[at] += d.operation(method, path, e.Describe())
	}
	all := ""
	for _, at := range order {
		all += byPath[at]
	}
	return all
}

func (d *description31) operation(method, path string, of operate.Description) string {
	summary, text, response := d.comment(of.Name)
	first, _, _ := strings.Cut(strings.TrimPrefix(path, operate.Prefix), "/")
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "      "+format+"\n", args...) }
	fmt.Fprintf(&b, "    %s:\n", strings.ToLower(method))
	line("operationId: %s", of.Name)
	line("tags: [%s]", cmp.Or(tags[first], "Service"))
	line("summary: %s", flow(summary))
	if text != "" {
		line("description: |\n        %s", strings.ReplaceAll(text, "\n", "\n        "))
	}
	parameters, matches := d.parameters(method, path, of)
	if len(parameters) > 0 {
		line("parameters:")
		for _, p := range parameters {
			line("  - %s", flow(p))
		}
	}
	if body := d.body(method, of); body != "" {
		line("requestBody:\n        required: true\n        content:\n          application/json:\n"+
			"            schema: %s", flow(ref(body)))
	}
	line("responses:\n        '200':\n          description: %s", flow(response))
	headers := "*headers"
	if of.Versioned {
		headers = "*versioned"
	}
	line("    headers: %s\n          content:\n            application/json:\n              schema: %s",
		headers, flow(d.response(of)))
	for media, content := range d.base.Content[of.Name] {
		line("      %s: %s", media, flow(content))
	}
	for _, status := range statuses(method, of, matches) {
		ref := map[string]any{"$ref": "#/components/responses/" + responses[status]}
		line("  '%d': %s", status, flow(ref))
	}
	return b.String()
}

// comment returns the summary, the description and the response of an operation from its comment.
func (d *description31) comment(name string) (summary, text, response string) {
	first, rest, _ := strings.Cut(d.comments[strings.ToLower(name)], "\n")
	_, summary, _ = strings.Cut(first, ": ")
	text, rest, _ = strings.Cut("\n"+rest, "\n200: ")
	response, _, _ = strings.Cut(strings.TrimSpace(rest), "\n\n") // notes for readers of the code follow
	return summary, strings.TrimSpace(text), strings.ReplaceAll(response, "\n", " ")
}

var responses = map[int]string{400: "InvalidRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound",
	408: "RequestTimeout", 412: "PreconditionFailed", 413: "PayloadTooLarge", 415: "UnsupportedMediaType",
	429: "RateLimited", 500: "Internal", 503: "Unavailable"}

func statuses(method string, of operate.Description, matches bool) []int {
	all := []int{400, 401, 429, 500, 503}
	if method != "GET" {
		all = append(all, 403, 408, 413, 415)
	}
	if of.Name == "readSelf" || of.Name == "readReport" { // its input names an operation; a viewer may not
		all = append(all, 403)
	}
	if matches {
		all = append(all, 412)
	}
	if of.Missing {
		all = append(all, 404)
	}
	slices.Sort(all)
	return all
}

// placeholder returns the parameter of a path, whose name begins with the singular of the path's collection.
func (d *description31) placeholder(path string) parameter {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, operate.Prefix), "/")
	if first == "deliveries" {
		first = "places"
	}
	return d.base.Components.Parameters[strings.TrimSuffix(first, "s")+"InPath"]
}

// parameters returns the parameters of an operation, and reports whether a version is one of them.
func (d *description31) parameters(method, path string, of operate.Description) (all []any, matches bool) {
	if strings.Contains(path, "{") {
		all = append(all, d.parameter(d.placeholder(path)))
	}
	for _, f := range fieldsOf(of.Input, false) {
		name := f.Tag.Get("query")
		switch {
		case f.Tag.Get("in") == "match":
			matches = true
			all = append(all, d.parameter(parameter{"If-Match", "header", true}))
		case name != "" && (method == "GET" || jsonName(f.StructField) == ""):
			needed := name == of.Needed || f.Tag.Get("need") != "" && jsonName(f.StructField) == ""
			all = append(all, d.parameter(parameter{name, "query", needed}))
		}
	}
	return all, matches
}

// parameter returns a reference to a parameter of the base, or one without a description.
func (d *description31) parameter(p parameter) any {
	for name, found := range d.base.Components.Parameters {
		if found == p {
			return map[string]any{"$ref": "#/components/parameters/" + name}
		}
	}
	return map[string]any{"name": p.Name, "in": p.In, "required": p.Required,
		"schema": map[string]any{"type": "string"}}
}

// body returns the name of the schema of a request body, or "".
func (d *description31) body(method string, of operate.Description) string {
	if of.Input == reflect.TypeFor[operate.SiteInput]() {
		return "Site"
	}
	if method == "GET" || !slices.ContainsFunc(fieldsOf(of.Input, false),
		func(f field) bool { return jsonName(f.StructField) != "" }) {
		return ""
	}
	name := map[string]string{"rotateSecret": "Rotate", "sendTestEvent": "TestEvent"}[of.Name]
	if name == "" {
		name = strings.ToUpper(of.Name[:1]) + of.Name[1:]
	}
	d.object(name, of.Input, true)
	return name
}

// response returns the schema of a response.
func (d *description31) response(of operate.Description) any {
	switch {
	case of.Name == "listDeliveries": // two operations have this path
		d.schema(reflect.TypeFor[operate.Delivery]())
		d.schema(reflect.TypeFor[operate.UndeliveredEvent]())
		return ref("Deliveries")
	case of.Name == "invite":
		d.object("Invitation", of.Output, false)
		return ref("CreatedInvitation")
	case of.List == "":
		return d.schema(of.Output)
	}
	items, _ := of.Output.FieldByName("Items")
	return map[string]any{"type": "object", "additionalProperties": false, "required": []any{of.List},
		"properties": map[string]any{of.List: d.schema(items.Type), "next": ref("Next")}}
}

// schemas returns the schemas that paths refers to, and those of the host's endpoints.
func (d *description31) schemas() string {
	d.schema(reflect.TypeFor[ModuleState]())
	d.schema(reflect.TypeFor[ModuleActivated]())
	d.schema(reflect.TypeFor[BackupMade]())
	d.schema(reflect.TypeFor[integration.SiteIntegration]())
	return d.written.String()
}

// schemaNames are the names of schemas that differ from those of their types.
var schemaNames = map[reflect.Type]string{
	reflect.TypeFor[operate.Changed]():     "ChangedIntegration",
	reflect.TypeFor[operate.ProbeReport](): "Probe",
	reflect.TypeFor[operate.Passkey]():     "MemberPasskey",
	reflect.TypeFor[operate.AuditChange](): "AuditChange",
	reflect.TypeFor[ModuleState]():         "Module",
	reflect.TypeFor[ModuleActivated]():     "ActivatedModule",
	reflect.TypeFor[BackupMade]():          "Backup",
}

// schema returns the schema of a type. For a struct, this is a reference.
func (d *description31) schema(of reflect.Type) any {
	switch {
	case of == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case of == reflect.TypeFor[json.RawMessage]():
		return map[string]any{"type": "object"}
	}
	switch of.Kind() {
	case reflect.Pointer:
		return d.schema(of.Elem())
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return map[string]any{"type": "integer"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": d.schema(of.Elem())}
	case reflect.Map:
		if of.Elem().Kind() == reflect.Uint64 {
			return ref("Counts")
		}
		return map[string]any{"type": "object", "additionalProperties": d.schema(of.Elem())}
	}
	name := cmp.Or(schemaNames[of], strings.ToUpper(of.Name()[:1])+of.Name()[1:])
	d.object(name, of, false)
	return ref(name)
}

// object writes the schema of a struct, once. An input may have unknown fields, and its
// optional fields may be null.
func (d *description31) object(name string, of reflect.Type, input bool) {
	if d.seen[name] {
		return
	}
	d.seen[name] = true
	var required []any
	properties := ""
	for _, f := range fieldsOf(of, false) {
		json := jsonName(f.StructField)
		added, shown := d.field(f.of, json)
		if json == "" || !shown {
			continue
		}
		needed := !strings.Contains(f.Tag.Get("json"), "omitempty")
		if f.of == reflect.TypeFor[integration.SiteIntegration]() {
			needed = added["required"] == true
		}
		if input {
			needed = f.Tag.Get("need") != "" || added["required"] == true && !isChange(of)
		}
		delete(added, "required")
		if needed {
			required = append(required, json)
		}
		schema := merged(d.schema(f.Type), added, input && !needed)
		properties += "        " + flow(json) + ": " + flow(schema) + "\n"
	}
	b := &d.written
	fmt.Fprintf(b, "    %s:\n      type: object\n", name)
	if text, ok := d.base.Fields[of.Name()]["description"].(string); ok {
		fmt.Fprintf(b, "      description: %s\n", flow(text))
	}
	if !input {
		fmt.Fprint(b, "      additionalProperties: false\n")
	}
	if len(required) > 0 {
		fmt.Fprintf(b, "      required: %s\n", flow(required))
	}
	fmt.Fprintf(b, "      properties:\n%s", properties)
}

func isChange(of reflect.Type) bool {
	_, changes := of.FieldByName("Versioned")
	return changes
}

// field returns the additions of openapi.base.yaml and of integration.Settings to a field of a type, and
// reports whether the schema has the field.
func (d *description31) field(of reflect.Type, name string) (added map[string]any, shown bool) {
	given, found := d.base.Fields[of.Name()][name]
	added, _ = given.(map[string]any)
	if added == nil && found {
		return nil, false
	}
	if added = maps.Clone(added); added == nil {
		added = map[string]any{}
	}
	isInput := of == reflect.TypeFor[operate.IntegrationInput]()
	if !isInput && of != reflect.TypeFor[integration.Integration]() &&
		of != reflect.TypeFor[integration.SiteIntegration]() {
		return added, true
	}
	for _, s := range integration.Settings {
		if s.Name != name {
			continue
		}
		if s.Doc != "" && !isInput && added["description"] == nil {
			added["description"] = s.Doc
		}
		if len(s.Options) > 0 && added["$ref"] == nil {
			added["enum"] = valuesOf(s, isInput)
		}
	}
	return added, true
}

// valuesOf returns the values that a setting can have.
func valuesOf(s integration.Setting, null bool) (values []any) {
	if !s.Required {
		values = append(values, "")
	}
	for _, o := range s.Options {
		values = append(values, o.Value)
	}
	if null {
		values = append(values, nil)
	}
	return values
}

// merged returns a schema with additions.
func merged(schema any, added map[string]any, null bool) map[string]any {
	all := map[string]any{}
	if added["$ref"] == nil {
		maps.Copy(all, schema.(map[string]any))
	}
	maps.Copy(all, added)
	if all["type"] != nil && null {
		all["type"] = []any{all["type"], "null"}
	}
	return all
}

// field is a field of a struct, or of a struct that is embedded in it.
type field struct {
	reflect.StructField
	of reflect.Type // the struct that declares it
}

// fieldsOf returns the fields of a struct that requests and responses have.
func fieldsOf(of reflect.Type, changes bool) (all []field) {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return nil
	}
	for n := range of.NumField() {
		f := of.Field(n)
		changes = changes || f.Type == reflect.TypeFor[operate.Versioned]()
		switch {
		case f.Anonymous:
			all = append(all, fieldsOf(f.Type, changes)...)
		case f.IsExported() && !(changes && f.Tag.Get("only") == "create"):
			all = append(all, field{f, of})
		}
	}
	return all
}

// jsonName returns the name of a field in JSON, or "".
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return strings.TrimPrefix(name, "-")
}

func ref(name string) map[string]any { return map[string]any{"$ref": "#/components/schemas/" + name} }

// plain matches texts that need no quotes.
var plain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9 _.-]*[A-Za-z0-9_.]$`)

// keys is the order of the keys of a schema.
var keys = []string{"$ref", "name", "in", "type", "format", "additionalProperties", "required", "properties"}

// flow returns a value as one line of YAML.
func flow(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case string:
		if strings.Contains(v, "\n") {
			return strconv.Quote(v)
		}
		reserved := []string{"null", "true", "false", "off", "on", "yes", "no"}
		if plain.MatchString(v) && !slices.Contains(reserved, v) {
			return v
		}
		return "'" + strings.ReplaceAll(v, "'", "''") + "'"
	case []any:
		var all []string
		for _, each := range v {
			all = append(all, flow(each))
		}
		return "[" + strings.Join(all, ", ") + "]"
	case map[string]any:
		var names, all []string
		for name := range v {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int {
			at := func(name string) int {
				n := slices.Index(keys, name)
				if n < 0 {
					return len(keys)
				}
				return n
			}
			return cmp.Or(cmp.Compare(at(a), at(b)), strings.Compare(a, b))
		})
		for _, name := range names {
			all = append(all, flow(name)+": "+flow(v[name]))
		}
		return "{ " + strings.Join(all, ", ") + " }"
	}
	return fmt.Sprint(v)
}
