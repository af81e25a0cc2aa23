package servers

import (
	"context"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/test/kit"
)

func TestMain(m *testing.M) {
	if os.Getenv(contenderVariable) != "" {
		os.Exit(contend()) // see overlap_test.go
	}
	kit.Main(m)
}

var background = context.Background()
