package savedplan

import (
	"testing"

	"lockstep/kube/e2e/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
