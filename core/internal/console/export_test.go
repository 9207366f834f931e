package console

// MaxBody is the maximum number of bytes of a form.
const MaxBody = maxBody

// PageRow is a row of the table of pages, for the tests that hold their own tables against it.
type PageRow struct {
	Name string
	Open bool
	Acts []string
}

// PageRows returns the table of pages.
func PageRows() (rows []PageRow) {
	for _, p := range table {
		row := PageRow{Name: p.name, Open: p.open}
		for _, a := range p.acts {
			row.Acts = append(row.Acts, a.name)
		}
		rows = append(rows, row)
	}
	return rows
}
