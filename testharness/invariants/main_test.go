package invariants_test

import (
	"flag"
	"os"
	"testing"
)

// Most of these tests wait for a lease or for a server. More of them therefore run in parallel than there are
// processors, unless the command line sets a number.
func TestMain(m *testing.M) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		flag.Set("test.parallel", "5")
	}
	os.Exit(m.Run())
}
