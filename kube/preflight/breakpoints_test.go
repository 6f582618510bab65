package preflight

import (
	"slices"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

func TestFindBreakpoints(t *testing.T) { // R42
	phases := []event.Phase{
		{Groups: []*plan.Group{{ID: "pre-install:Job/warm"}}},
		{Groups: []*plan.Group{{ID: "shop/db:schema"}, {ID: "shop/api:(unsequenced)"}, {ID: "shop:web"}}},
	}
	for _, tt := range []struct {
		texts   []string
		want    []string
		wantErr string
	}{
		{texts: []string{"api:~", "ema"}, want: []string{"shop/api:(unsequenced)", "shop/db:schema"}},
		{texts: []string{"warm", "*:web"}, want: []string{"pre-install:Job/warm", "shop:web"}},
		{texts: []string{"web", "db:shema"}, want: []string{"shop:web"}, wantErr: "--break-on: no group db:shema; did you mean shop/db:schema?"},
		{texts: []string{""}, wantErr: "--break-on: the name of the group is empty; the groups are pre-install:Job/warm, shop/db:schema, shop/api:(unsequenced), shop:web"},
	} {
		ids, err := pickGroups("--break-on", tt.texts, phases)
		if !slices.Equal(ids, tt.want) || (err == nil) != (tt.wantErr == "") || err != nil && err.Error() != tt.wantErr {
			t.Errorf("%q: %q, %v; want %q %s", tt.texts, ids, err, tt.want, tt.wantErr)
		}
	}
}
