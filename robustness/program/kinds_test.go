package program

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/protocol"
)

// Every lock has a model, but the semaphore whose permits nobody holds: the trials have that.
func TestKindsHaveModels(t *testing.T) {
	for _, k := range protocol.Kinds {
		has := func(model Kind) bool { return model.Namespace == k.Namespace }
		if k != protocol.SemaphoreKind && !slices.ContainsFunc(Kinds, has) {
			t.Errorf("%s has no model", k.Name)
		}
	}
}
