package neighbours

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/test/kit"
)

func TestMain(m *testing.M) {
	if client, addr, is := strings.Cut(os.Getenv(programAt), " "); is {
		program(client, addr) // of TestHostileReplies
		return
	}
	kit.Main(m)
}

var background = context.Background()
