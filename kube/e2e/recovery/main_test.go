package recovery

import (
	"os"
	"testing"

	"lockstep/kube/e2e/rig"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childOperationVar); text != "" {
		os.Exit(runChildOperation(text))
	}
	rig.Main(m)
}
