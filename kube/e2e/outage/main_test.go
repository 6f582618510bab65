package outage

import (
	"testing"

	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway/testcluster"
)

// TestMain starts a separate cluster for this package, because unavailable APIs affect all
// clients and controllers of a cluster.
func TestMain(m *testing.M) {
	testcluster.Alone()
	rig.Main(m)
}
