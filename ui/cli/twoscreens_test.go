package cli

import (
	"path/filepath"
	"testing"

	"lockstep/kube"
)

// TestTwoScreens: two operators see how many screens show a run, and what the other did.
func TestTwoScreens(t *testing.T) {
	t.Parallel()
	r := newFormRig(t, "two-screens")
	first := r.open("install", "cart", filepath.Join(r.dir, "basket"), "--create-namespace", "--break-on", "basket:(unsequenced)")
	first.await(0, "paused at a breakpoint")
	second := r.open("attach", "cart")
	second.await(0, "screens")
	second.await(0, "paused at a breakpoint")
	first.await(0, "screens")
	m := first.mark()
	second.keys("b")
	first.await(m, "breakpoint changed by "+kube.Self()+", process ")
	m = second.mark()
	first.keys("b")
	second.await(m, "breakpoint changed by "+kube.Self())
	m = first.mark()
	second.keys("c")
	first.await(m, "press q to quit")
	second.done()
	first.done()
}
