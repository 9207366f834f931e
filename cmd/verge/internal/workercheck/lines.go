package workercheck

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// linesOf returns the line of each value by its path, as in vars.VERGE_SITE.publishers.0.id.
func linesOf(text []byte) (map[string]int, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	lines := map[string]int{}
	line := func() int { return 1 + bytes.Count(text[:d.InputOffset()], []byte("\n")) }
	var value func(path string) error
	value = func(path string) error {
		token, err := d.Token()
		if err != nil {
			return err
		}
		if _, named := lines[path]; !named {
			lines[path] = line()
		}
		delim, is := token.(json.Delim)
		if !is {
			return nil
		}
		for n := 0; d.More(); n++ {
			name := strconv.Itoa(n)
			if delim == '{' {
				key, err := d.Token()
				if err != nil {
					return err
				}
				name = fmt.Sprint(key)
			}
			if path != "" {
				name = path + "." + name
			}
			if delim == '{' {
				lines[name] = line()
			}
			if err := value(name); err != nil {
				return err
			}
		}
		_, err = d.Token()
		return err
	}
	return lines, value("")
}
