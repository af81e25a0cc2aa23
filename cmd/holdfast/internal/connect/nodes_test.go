package connect

import (
	"maps"
	"testing"
)

func TestAddNodes(t *testing.T) {
	t.Parallel()
	found := map[string]bool{"10.0.0.1:6379": false, "b.example:6379": false}
	addNodes(found, "1 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-99\n"+
		"2 10.0.0.2:6379@16379,b.example master - 0 0 1 connected 100-200\n"+
		"3 10.0.0.3:6379@16379,c.example,shard-id=x slave,fail 1 0 0 1 disconnected\n"+
		"4 :0@0 master,noaddr - 0 0 1 disconnected\n5 fe80::1:6380@16380 master - 0 0 1 connected\n6 short\n7 :6379@0 master - 0 0 1 connected\n")
	want := map[string]bool{"10.0.0.1:6379": false, "b.example:6379": false, "10.0.0.3:6379": true, "[fe80::1]:6380": false}
	if !maps.Equal(found, want) {
		t.Errorf("%v, want %v", found, want)
	}
}
