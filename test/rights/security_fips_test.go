//go:build go1.26

package rights

import (
	"os"
	"os/exec"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// TestFIPS140Only: where Go forbids every algorithm that FIPS 140 does not approve, a program with each
// driver starts and locks. The test binary starts itself in that mode.
func TestFIPS140Only(t *testing.T) {
	const inside = "HOLDFAST_TEST_FIPS"
	if os.Getenv(inside) == "" {
		t.Parallel()
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFIPS140Only$")
		again.Env = append(os.Environ(), "GODEBUG=fips140=only", inside+"=1")
		if said, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, said)
		}
		return
	}
	s := redistest.Start(t)
	memory, err := memdriver.NewServer()
	kit.OK(t, err)
	t.Cleanup(memory.Close)
	platforms := append(kit.Both("fips", []string{s.Addr()}, kit.CLI(s)), &kit.Platform{
		Name: "fips/memdriver", Open: func(*testing.T) driver.Driver { return memory.Driver() },
	})
	for _, p := range platforms {
		for _, k := range kit.Kinds {
			t.Run(p.Name+"/"+k.Name, func(t *testing.T) {
				hold := kit.Must(t)(k.Lock(p.Client(t), kit.Fresh()).Lock(background))
				kit.OK(t, hold.Unlock())
			})
		}
	}
}
