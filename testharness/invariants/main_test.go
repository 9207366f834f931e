package invariants_test

import (
	"flag"
	"os"
	"testing"
)

// Most of these tests wait for a lease or for a server. So more of them run at
// once than there are processors, unless the command line says how many.
func TestMain(m *testing.M) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		flag.Set("test.parallel", "5")
	}
	os.Exit(m.Run())
}
