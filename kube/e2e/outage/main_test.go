package outage

import (
	"testing"

	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway/testcluster"
)

// TestMain starts a cluster of this package's own: some tests have APIs that are down,
// which every client and controller of the cluster comes to feel.
func TestMain(m *testing.M) {
	testcluster.Alone()
	rig.Main(m)
}
