package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestPick(t *testing.T) { // R42
	group := func(id string, objects ...Object) *Group { return &Group{ID: id, Objects: objects} }
	groups := []*Group{
		group("shop/db:schema", Object{Kind: "ConfigMap", Name: "sql"}, Object{Kind: "Job", Name: "migrate"}),
		group("shop/db:database", Object{Kind: "StatefulSet", Name: "db"}, Object{Kind: "PersistentVolumeClaim", Name: "data"}),
		group("shop/api:web", Object{Kind: "Deployment", Name: "api"}),
		group("shop/front:web", Object{Kind: "Deployment", Name: "front"}),
		group("shop/cache:(unsequenced)", Object{Kind: "Deployment", Name: "cache"}),
		group("shop:web"),
		group("pre-install:Job/warm", Object{Kind: "Job", Name: "warm"}),
		group("shop/db:schema", Object{Kind: "Job", Name: "migrate"}), // its removal
	}
	for text, want := range map[string][]string{
		"shop/db:schema":      {"shop/db:schema"},
		"db:schema":           {"shop/db:schema"},
		"schema":              {"shop/db:schema"},
		"shop:web":            {"shop:web"},
		"api:web":             {"shop/api:web"},
		"cache:(unseq.)":      {"shop/cache:(unsequenced)"},
		"(unsequenced)":       {"shop/cache:(unsequenced)"},
		"shop/cache:~":        {"shop/cache:(unsequenced)"},
		"cache:~":             {"shop/cache:(unsequenced)"},
		"~":                   {"shop/cache:(unsequenced)"},
		"cache":               {"shop/cache:(unsequenced)"},
		"warm":                {"pre-install:Job/warm"},
		"base":                {"shop/db:database"},
		"Job/migrate":         {"shop/db:schema"},
		"pvc/data":            {"shop/db:database"},
		"kind=Job":            {"shop/db:schema", "pre-install:Job/warm"},
		"kind=job":            {"shop/db:schema", "pre-install:Job/warm"},
		"kind=PVC":            {"shop/db:database"},
		"*:web":               {"shop/api:web", "shop/front:web", "shop:web"},
		"shop/??:*":           {"shop/db:schema", "shop/db:database"},
		"*":                   {"shop/db:schema", "shop/db:database", "shop/api:web", "shop/front:web", "shop/cache:(unsequenced)", "shop:web", "pre-install:Job/warm"},
		"shop/(unseq.*:web+$": nil,
	} {
		got, err := Pick(text, groups)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"web":          "web is ambiguous: shop/api:web, shop/front:web or shop:web",
		"zz":           "no group zz; the groups are shop/db:schema, shop/db:database, shop/api:web, shop/front:web, shop/cache:(unsequenced), shop:web, pre-install:Job/warm",
		"eb":           "eb is ambiguous: shop/api:web, shop/front:web or shop:web",
		"shema":        "no group shema; did you mean shop/db:schema?",
		"db:shcema":    "no group db:shcema; did you mean shop/db:schema?",
		"":             "the name of the group is empty; the groups are shop/db:schema, shop/db:database, shop/api:web, shop/front:web, shop/cache:(unsequenced), shop:web, pre-install:Job/warm",
		"kind=Service": "no group has an object of kind Service; the kinds are ConfigMap, Deployment, Job, PersistentVolumeClaim, StatefulSet",
		"kind=":        "kind= needs a kind, for example kind=Job",
	} {
		if _, err := Pick(text, groups); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}

// TestPickOrder: which match takes precedence, and how the error lists several.
func TestPickOrder(t *testing.T) { // R42
	const several = "+"
	for _, tt := range []struct {
		name, text, want string // want is an id, or + and the error
		ids              []string
	}{
		{"an id takes precedence over ~", "a:~", "a:~", []string{"a:(unsequenced)", "a:~"}},
		{"~ takes precedence over a suffix", "a:~", "a:(unsequenced)", []string{"x/a:(unsequenced)", "a:(unsequenced)"}},
		{"~ in two charts", "~", several + "~ is ambiguous: a:(unsequenced) or a/b:(unsequenced)", []string{"a:(unsequenced)", "a/b:(unsequenced)"}},
		{"~ in one chart", "~", "a/b:(unsequenced)", []string{"a:x", "a/b:(unsequenced)"}},
		{"no ~", "b:~", several + "no group b:~; the groups are a:long-name", []string{"a:long-name"}},
		{"~ expanded by a shell", "/root", several + "no group /root; the groups are a:(unsequenced)", []string{"a:(unsequenced)"}},
		{"a name takes precedence over a suffix", "web", "a:web", []string{"a:my-web", "a:web"}},
		{"a suffix after / takes precedence over others", "web", "pre-install:Job/web", []string{"a:my-web", "pre-install:Job/web"}},
		{"the same suffix twice", "web", several + "web is ambiguous: a:my-web or b:the-web", []string{"a:my-web", "b:the-web"}},
		{"the same suffix, one with its chart", "b/c:web", "a/b/c:web", []string{"a/b/c:web", "a/c:web"}},
		{"a hook by its object", "Job/warm", "pre-install:Job/warm", []string{"pre-install:Job/warm", "post-install:Job/cold"}},
		{"a hook of two phases", "Job/warm", several + "Job/warm is ambiguous: pre-install:Job/warm or post-install:Job/warm", []string{"pre-install:Job/warm", "post-install:Job/warm"}},
		{"in two phases", "web", "a:web", []string{"a:web", "a:web"}},
		{"empty", "", several + "the name of the group is empty; the groups are a:web", []string{"a:web"}},
		{"no objects", "kind=Job", several + "no group has an object of kind Job; the run has no objects", []string{"a:web"}},
		{"no groups", "web", several + "no group web; the run has no groups", nil},
		{"no groups, a pattern", "*:x", several + "no group matches *:x; the run has no groups", nil},
		{"no groups, empty", "", several + "the name of the group is empty; the run has no groups", nil},
		{"eight", "eb", several + "eb is ambiguous: 1:web, 2:web, 3:web, 4:web, 5:web, 6:web, 7:web or 8:web", numbered(8)},
		{"nine", "eb", several + "eb is ambiguous: 1:web, 2:web, 3:web, 4:web, 5:web, 6:web, 7:web, 8:web and 1 more", numbered(9)},
		{"a typo", "db:shema", several + "no group db:shema; did you mean shop/db:schema?", []string{"shop/db:schema", "shop/api:web"}},
	} {
		var groups []*Group
		for _, id := range tt.ids {
			groups = append(groups, &Group{ID: id})
		}
		ids, err := Pick(tt.text, groups)
		got := strings.Join(ids, " ")
		if err != nil {
			got = several + err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %s is %s; want %s", tt.name, tt.text, got, tt.want)
		}
	}
}

func numbered(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("%d:web", i+1))
	}
	return ids
}

// TestShellID: Pick finds the group by its ShellID.
func TestShellID(t *testing.T) {
	for id, want := range map[string]string{"shop:(unsequenced)": "shop:~", "shop/db:schema": "shop/db:schema", "pre-install:Job/warm": "pre-install:Job/warm"} {
		got := ShellID(id)
		if found, err := Pick(got, []*Group{{ID: "x:other"}, {ID: id}}); got != want || err != nil || found[0] != id {
			t.Errorf("%s is %s, which means %q, %v; want %s", id, got, found, err, want)
		}
	}
}
