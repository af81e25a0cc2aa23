package rueidisdriver

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestOptionOf finds the options of a client behind Sentinel, and of no other.
func TestOptionOf(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, 1, 1)
	made := rueidis.ClientOption{
		InitAddress: sentinel.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: sentinel.MasterName()}, ClientName: "shop",
	}
	client := connect(t, made)
	found, ok := optionOf(client)
	if !ok || found.ClientName != "shop" || found.Sentinel.MasterSet != made.Sentinel.MasterSet || len(found.InitAddress) != 1 {
		t.Errorf("%t, %+v", ok, found)
	}
	type wrapper struct{ rueidis.Client }
	for _, other := range []rueidis.Client{
		wrapper{client}, &wrapper{client}, connect(t, rueidis.ClientOption{InitAddress: []string{redistest.Start(t).Addr()}}),
	} {
		if found, ok := optionOf(other); ok {
			t.Errorf("%T: %+v", other, found)
		}
	}
}
