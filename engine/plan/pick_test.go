package plan

import (
	"slices"
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
		group("pre-install/Job/warm", Object{Kind: "Job", Name: "warm"}),
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
		"warm":                {"pre-install/Job/warm"},
		"base":                {"shop/db:database"},
		"Job/migrate":         {"shop/db:schema"},
		"pvc/data":            {"shop/db:database"},
		"kind=Job":            {"shop/db:schema", "pre-install/Job/warm"},
		"kind=job":            {"shop/db:schema", "pre-install/Job/warm"},
		"kind=PVC":            {"shop/db:database"},
		"*:web":               {"shop/api:web", "shop/front:web", "shop:web"},
		"shop/??:*":           {"shop/db:schema", "shop/db:database"},
		"*":                   {"shop/db:schema", "shop/db:database", "shop/api:web", "shop/front:web", "shop/cache:(unsequenced)", "shop:web", "pre-install/Job/warm"},
		"shop/(unseq.*:web+$": nil,
	} {
		got, err := Pick(text, groups)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"web":          "web could be any of shop/api:web, shop/front:web, shop:web",
		"zz":           "no group zz; the groups are shop/db:schema, shop/db:database, shop/api:web, shop/front:web, shop/cache:(unsequenced), shop:web, pre-install/Job/warm",
		"eb":           "eb could be any of shop/api:web, shop/front:web, shop:web",
		"shema":        "no group shema; did you mean shop/db:schema?",
		"db:shcema":    "no group db:shcema; did you mean shop/db:schema?",
		"":             "no group ; the groups are shop/db:schema, shop/db:database, shop/api:web, shop/front:web, shop/cache:(unsequenced), shop:web, pre-install/Job/warm",
		"kind=Service": "no group fits kind=Service; the groups are shop/db:schema, shop/db:database, shop/api:web, shop/front:web, shop/cache:(unsequenced), shop:web, pre-install/Job/warm",
	} {
		if _, err := Pick(text, groups); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}
