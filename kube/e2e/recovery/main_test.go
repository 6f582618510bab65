package recovery

import (
	"os"
	"testing"

	"lockstep/kube/e2e/rig"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(errandVar); text != "" {
		os.Exit(runErrand(text))
	}
	rig.Main(m)
}
