package plan

import "testing"

func TestBuildPlan(t *testing.T) {
	x, y := chart("shop/x"), chart("shop/y")
	off := Subchart{Name: "off"}
	tests := []struct {
		name      string
		root      *Chart
		resources []Resource
		want      []string
		warnings  []string
	}{{
		name: "nothing to deploy",
	}, {
		name: "R1 R7 the groups of HIP-0025, complete",
		resources: []Resource{
			res("shop", "Service/db-service", in, "database"),
			res("shop", "Deployment/my-app", in, "app", needs, `["database", "queue"]`),
			res("shop", "Deployment/queue-processor", in, "queue", needs, `["another-group"]`),
			res("shop", "ConfigMap/other", in, "another-group"),
		},
		want: []string{
			"shop:another-group = ConfigMap/other",
			"shop:database = Service/db-service",
			"shop:queue = Deployment/queue-processor < shop:another-group",
			"shop:app = Deployment/my-app < shop:database shop:queue",
		},
	}, {
		name: "R8 the groups of HIP-0025, as printed",
		resources: []Resource{
			res("shop", "Service/db-service", in, "database"),
			res("shop", "Deployment/my-app", in, "app", needs, `["database", "queue"]`),
			res("shop", "Deployment/queue-processor", in, "queue", needs, `["another-group"]`),
		},
		want: []string{
			"shop:database = Service/db-service",
			"shop:(unsequenced) = Deployment/my-app Deployment/queue-processor < shop:database",
		},
		warnings: []string{
			`R8: shop: Deployment/my-app: group "app" waits for "queue", which is itself deployed last`,
			`R8: shop: Deployment/queue-processor: group "queue" waits for "another-group", which does not exist`,
		},
	}, {
		name: "R2 an invalid list makes the object unsequenced, not its group",
		resources: []Resource{
			res("shop", "ConfigMap/db", in, "db"),
			res("shop", "ConfigMap/app", in, "app", needs, `["db"]`),
			res("shop", "ConfigMap/a", in, "app", needs, `db`),
			res("shop", "ConfigMap/b", in, "app", needs, `["db", 1]`),
			res("shop", "ConfigMap/c", in, "app", needs, `["db", null]`),
			res("shop", "ConfigMap/d", in, "app", needs, `null`),
			res("shop", "ConfigMap/e", in, "app", needs, " \n"),
			res("shop", "ConfigMap/f", AnnotationReadinessSuccess, ` `, AnnotationReadinessFailure, `[]`),
			res("shop", "ConfigMap/g", needs, ``),
		},
		want: []string{
			"shop:db = ConfigMap/db",
			"shop:app = ConfigMap/app ConfigMap/d ConfigMap/e < shop:db",
			"shop:(unsequenced) = ConfigMap/a ConfigMap/b ConfigMap/c ConfigMap/f ConfigMap/g < shop:app shop:db",
		},
		warnings: []string{
			`R2: shop: ConfigMap/a: annotation helm.sh/depends-on/resource-groups must be a list, such as '["db"]', but is 'db'`,
			`R2: shop: ConfigMap/b: annotation helm.sh/depends-on/resource-groups must be a list, such as '["a", "b"]', but is '["db", 1]'`,
			`R2: ConfigMap/c`,
		},
	}, {
		name: "R2 a name that would break lines and ids",
		resources: []Resource{
			res("shop", "ConfigMap/a", in, "a\nb"), res("shop", "ConfigMap/b", in, Unsequenced), res("shop", "ConfigMap/c", in, `["a","b"]`),
		},
		want:     []string{"shop:(unsequenced) = ConfigMap/a ConfigMap/b ConfigMap/c"},
		warnings: []string{`R2: is "a\nb"`, `R2: must not be a reserved name`, `R2: must be one name, but is '["a","b"]'`},
	}, {
		name: "R3 both spellings of keys with two slashes",
		root: chart("shop", sub(x)),
		resources: []Resource{
			res("shop/x", "ConfigMap/one", in, "one"),
			res("shop/x", "ConfigMap/two", in, "two", "helm.sh/depends-on-resource-groups", `["one"]`),
			res("shop", "ConfigMap/a", layer, "a"),
			res("shop", "ConfigMap/b", layer, "b", "helm.sh/dependson-layer", "a", "helm.sh/dependson-chart", "x"),
		},
		want: []string{
			"shop/x:one = ConfigMap/one",
			"shop:a = ConfigMap/a",
			"shop/x:two = ConfigMap/two < shop/x:one",
			"shop:b = ConfigMap/b < shop/x:one shop/x:two shop:a",
		},
	}, {
		name: "R7 names are trimmed, and the dependencies of all objects of a group count",
		resources: []Resource{
			res("shop", "ConfigMap/a", in, " a "), res("shop", "ConfigMap/b", in, "b"),
			res("shop", "ConfigMap/c", in, "c", needs, `[" a"]`),
			res("shop", "ConfigMap/d", in, "c", needs, `["b", "b"]`),
			res("shop", "ConfigMap/e", in, "c", needs, `[]`),
		},
		want: []string{
			"shop:a = ConfigMap/a", "shop:b = ConfigMap/b",
			"shop:c = ConfigMap/c ConfigMap/d ConfigMap/e < shop:a shop:b",
		},
	}, {
		name: "R7 names do not refer to groups of other charts",
		root: chart("shop", sub(x)),
		resources: []Resource{
			res("shop", "ConfigMap/a", in, "a"),
			res("shop/x", "ConfigMap/b", in, "b", needs, `["a"]`),
		},
		want:     []string{"shop/x:(unsequenced) = ConfigMap/b", "shop:a = ConfigMap/a"},
		warnings: []string{`R8: shop/x: ConfigMap/b: group "b" waits for "a", which does not exist`},
	}, {
		name: "R2, R8 a group without objects because of an invalid annotation",
		resources: []Resource{
			res("shop", "ConfigMap/a", in, "a", needs, "b, c"),
			res("shop", "ConfigMap/b", in, "b", needs, `["a"]`),
		},
		want: []string{"shop:(unsequenced) = ConfigMap/a ConfigMap/b"},
		warnings: []string{
			`R2: shop: ConfigMap/a: annotation helm.sh/depends-on/resource-groups must be a list`,
			`R8: shop: ConfigMap/b: group "b" waits for "a", which has no objects because an annotation of ConfigMap/a is invalid, so "b" is deployed last`,
		},
	}, {
		name: "R2, R8 a layer without objects because of an invalid annotation",
		resources: []Resource{
			res("shop", "ConfigMap/a", layer, " a ", above, `["b"`),
			res("shop", "ConfigMap/b", layer, "b", above, "a"),
		},
		want: []string{"shop:(unsequenced) = ConfigMap/a ConfigMap/b"},
		warnings: []string{
			`R2: shop: ConfigMap/a: annotation helm.sh/dependson/layer must be a list`,
			`R8: shop: ConfigMap/b: group "b" waits for "a", which has no objects because an annotation of ConfigMap/a is invalid, so "b" is deployed last`,
		},
	}, {
		name: "R8 one warning for each group, with all missing groups",
		resources: []Resource{
			res("shop", "ConfigMap/a", in, "a", needs, `["y", "b"]`),
			res("shop", "ConfigMap/b", in, "a", needs, `["", "z"]`),
			res("shop", "ConfigMap/c", in, "b", needs, `["no"]`),
		},
		want: []string{"shop:(unsequenced) = ConfigMap/a ConfigMap/b ConfigMap/c"},
		warnings: []string{
			`R8: shop: ConfigMap/b: group "a" waits for "", "y", "z", which do not exist, so "a" is deployed last, as part of (unsequenced); ` +
				`check the spelling; if they are optional, put each entry in the list inside the same {{ if }} as its group`,
			`R8: shop: ConfigMap/c: group "b" waits for "no", which does not exist, so "b" is deployed last, as part of (unsequenced); ` +
				`check the spelling; if "no" is optional, put its entry in the list inside the same {{ if }} as the group`,
		},
	}, {
		name: "R9 isolated groups, one of them by R8",
		resources: []Resource{
			res("shop", "ConfigMap/base", in, "base"), res("shop", "ConfigMap/app", in, "app", needs, `["base"]`),
			res("shop", "ConfigMap/lonely", in, "lonely"), res("shop", "ConfigMap/orphan", in, "orphan"),
			res("shop", "ConfigMap/broken", in, "broken", needs, `["nowhere", "orphan"]`),
		},
		want: []string{
			"shop:base = ConfigMap/base", "shop:app = ConfigMap/app < shop:base",
			"shop:(unsequenced) = ConfigMap/broken ConfigMap/lonely ConfigMap/orphan < shop:app shop:base",
		},
		warnings: []string{"R8: nowhere", `R9: groups "lonely" and "orphan" wait for no group, and no group waits for them, ` +
			`so their objects are deployed last, together, as (unsequenced); if their order matters, make them wait for a group`},
	}, {
		name:      "R9 the only group is not isolated",
		resources: []Resource{res("shop", "ConfigMap/a", in, "a"), res("shop", "ConfigMap/b")},
		want:      []string{"shop:a = ConfigMap/a", "shop:(unsequenced) = ConfigMap/b < shop:a"},
	}, {
		name: "R9 a group that waits for a subchart is not isolated, one in a chart that waits is",
		root: chart("shop", sub(x, "y"), sub(y)),
		resources: []Resource{
			res("shop", "ConfigMap/a", layer, "a"), res("shop", "ConfigMap/b", layer, "b", uses, "x"),
			res("shop/x", "ConfigMap/c", in, "c"), res("shop/x", "ConfigMap/d", in, "d"),
		},
		want: []string{
			"shop/x:(unsequenced) = ConfigMap/c ConfigMap/d",
			"shop:b = ConfigMap/b < shop/x:(unsequenced)",
			"shop:(unsequenced) = ConfigMap/a < shop:b",
		},
		warnings: []string{`R9: shop: group "a" waits for no group, and no group waits for it, so its objects are deployed last, as (unsequenced)`,
			`R9: shop/x: groups "c" and "d"`},
	}, {
		name: "R10 dependencies without a group",
		root: chart("shop", sub(x), sub(y)),
		resources: []Resource{
			res("shop/x", "ConfigMap/a", in, "a"), res("shop/x", "ConfigMap/b", needs, `["a"]`), res("shop/x", "ConfigMap/c", in, "  "),
			res("shop/y", "ConfigMap/d"), res("shop", "ConfigMap/e", uses, "y"),
		},
		want: []string{
			"shop/x:a = ConfigMap/a",
			"shop/y:(unsequenced) = ConfigMap/d",
			"shop/x:(unsequenced) = ConfigMap/b ConfigMap/c < shop/x:a",
			"shop:(unsequenced) = ConfigMap/e < shop/y:(unsequenced)",
		},
		warnings: []string{
			"R10: shop: ConfigMap/e has helm.sh/dependson/chart but belongs to no group, so the object is deployed last, as part of (unsequenced); add helm.sh/layer",
			"R10: shop/x: ConfigMap/b has helm.sh/depends-on/resource-groups but belongs to no group, so the object is deployed last, as part of (unsequenced); add helm.sh/resource-group",
		},
	}, {
		name: "R11 the subcharts of HIP-0025",
		root: waiting("foo", []string{"bar", "rabbitmq"}, sub(chart("foo/nginx")), sub(chart("foo/rabbitmq")),
			sub(chart("foo/bar"), "nginx", "rabbitmq")),
		resources: []Resource{
			res("foo", "Deployment/foo"), res("foo/nginx", "Deployment/nginx"),
			res("foo/rabbitmq", "Deployment/rabbitmq"), res("foo/bar", "Deployment/bar"),
		},
		want: []string{
			"foo/nginx:(unsequenced) = Deployment/nginx",
			"foo/rabbitmq:(unsequenced) = Deployment/rabbitmq",
			"foo/bar:(unsequenced) = Deployment/bar < foo/nginx:(unsequenced) foo/rabbitmq:(unsequenced)",
			"foo:(unsequenced) = Deployment/foo < foo/bar:(unsequenced) foo/rabbitmq:(unsequenced)",
		},
	}, {
		name: "R11 a subchart waits with its own subcharts, a chart's depends-on is only for its own objects",
		root: chart("shop",
			sub(waiting("shop/x", []string{"leaf"}, sub(chart("shop/x/leaf")), sub(chart("shop/x/twig"))), "y"),
			sub(chart("shop/y", sub(chart("shop/y/deep"))))),
		resources: []Resource{
			res("shop", "Secret/top"), res("shop/x", "ConfigMap/x"), res("shop/x/leaf", "ConfigMap/leaf"),
			res("shop/x/twig", "ConfigMap/twig"), res("shop/y", "ConfigMap/y", in, "one"), res("shop/y/deep", "ConfigMap/deep"),
		},
		want: []string{
			"shop/y/deep:(unsequenced) = ConfigMap/deep",
			"shop/y:one = ConfigMap/y",
			"shop:(unsequenced) = Secret/top",
			"shop/x/leaf:(unsequenced) = ConfigMap/leaf < shop/y/deep:(unsequenced) shop/y:one",
			"shop/x/twig:(unsequenced) = ConfigMap/twig < shop/y/deep:(unsequenced) shop/y:one",
			"shop/x:(unsequenced) = ConfigMap/x < shop/x/leaf:(unsequenced) shop/y/deep:(unsequenced) shop/y:one",
		},
	}, {
		name: "R11 a subchart that renders nothing keeps the order",
		root: waiting("shop", []string{"c"}, sub(chart("shop/a")), sub(chart("shop/b"), "a"), sub(chart("shop/c"), "b"), sub(chart("shop/d"), "b")),
		resources: []Resource{
			res("shop", "ConfigMap/top"), res("shop/a", "ConfigMap/a"), res("shop/d", "ConfigMap/d"),
		},
		want: []string{
			"shop/a:(unsequenced) = ConfigMap/a",
			"shop/d:(unsequenced) = ConfigMap/d < shop/a:(unsequenced)",
			"shop:(unsequenced) = ConfigMap/top < shop/a:(unsequenced)",
		},
	}, {
		name: "R12 names and aliases; of entries with the same name, the enabled one",
		root: waiting("shop", []string{"store", "primary"},
			Subchart{Name: "db", Alias: "primary", Chart: chart("shop/primary")},
			Subchart{Name: "db", Alias: "replica", Chart: chart("shop/replica"), DependsOn: []string{"primary"}},
			Subchart{Name: "store"}, Subchart{Name: "store", Chart: chart("shop/store"), DependsOn: []string{"queue"}},
			Subchart{Name: "queue", Alias: "q", Chart: chart("shop/q")}),
		resources: []Resource{
			res("shop", "ConfigMap/top"), res("shop/primary", "ConfigMap/p"), res("shop/replica", "ConfigMap/r"),
			res("shop/store", "ConfigMap/s"), res("shop/q", "ConfigMap/q"),
		},
		want: []string{
			"shop/primary:(unsequenced) = ConfigMap/p",
			"shop/q:(unsequenced) = ConfigMap/q",
			"shop/replica:(unsequenced) = ConfigMap/r < shop/primary:(unsequenced)",
			"shop/store:(unsequenced) = ConfigMap/s < shop/q:(unsequenced)",
			"shop:(unsequenced) = ConfigMap/top < shop/primary:(unsequenced) shop/store:(unsequenced)",
		},
	}, {
		name: "R12 nothing waits for a disabled subchart",
		root: waiting("shop", []string{"off"}, off, sub(x, "off"), Subchart{Name: "gone", DependsOn: []string{"off"}}),
		resources: []Resource{
			res("shop", "ConfigMap/a", layer, "a"), res("shop", "ConfigMap/b", layer, "b", above, "a", uses, `["off", "x"]`),
			res("shop", "ConfigMap/c", layer, "b", uses, "off"), res("shop/x", "ConfigMap/x"),
		},
		want: []string{
			"shop/x:(unsequenced) = ConfigMap/x",
			"shop:a = ConfigMap/a",
			"shop:b = ConfigMap/b ConfigMap/c < shop/x:(unsequenced) shop:a",
		},
		warnings: []string{
			`R12: shop: ConfigMap/b: helm.sh/dependson/chart names "off", which is disabled`,
			`R12: shop: helm.sh/depends-on/subcharts names "off", which is disabled`,
			`R12: shop: subchart "x" depends on "off", which is disabled`,
		},
	}, {
		name: "R13 a cycle through a disabled subchart is not an error",
		root: chart("shop", sub(x, "off"), Subchart{Name: "off", DependsOn: []string{"x"}}),
		resources: []Resource{
			res("shop/x", "ConfigMap/x"),
		},
		want:     []string{"shop/x:(unsequenced) = ConfigMap/x"},
		warnings: []string{"R12: off"},
	}, {
		name: "R13 an object twice in a group, or unsequenced in two charts, is applied once",
		root: chart("shop", sub(x)),
		resources: []Resource{
			res("shop", "ConfigMap/a", in, "a"), res("shop", "ConfigMap/a", in, "a", needs, `["b"]`), res("shop", "ConfigMap/b", in, "b"),
			res("shop", "Secret/s"), res("shop/x", "Secret/s"), res("shop/x", "Secret/t"), res("shop/x", "Secret/n/s"),
		},
		want: []string{
			"shop/x:(unsequenced) = Secret/s Secret/t",
			"shop:b = ConfigMap/b", "shop:a = ConfigMap/a < shop:b", "shop:(unsequenced) = Secret/s < shop:a shop:b",
		},
		warnings: []string{"R13: ConfigMap/a is rendered more than once", "R13: shop/x: Secret/s is also in shop"},
	}, {
		name: "R13 of two charts, the last one in the manifest is applied",
		root: chart("shop", sub(x)),
		resources: []Resource{
			from("shop/templates/s.yaml", res("shop", "Secret/s")), from("shop/charts/x/templates/s.yaml", res("shop/x", "Secret/s")), from("shop/charts/x/templates/t.yaml", res("shop/x", "Secret/t")),
			from("shop/charts/x/charts/y/templates/t.yaml", res("shop/x/y", "Secret/t")), from("shop/charts/w/templates/t.yaml", res("shop/w", "Secret/t")),
		},
		want: []string{"shop/x:(unsequenced) = Secret/t", "shop:(unsequenced) = Secret/s"},
		warnings: []string{"R13: shop/w: Secret/t is also in shop/x, and only that one is applied, because it is last in the manifest; remove one of the two",
			"R13: shop/x: Secret/s is also in shop", "R13: shop/x/y: Secret/t is also in shop/x"},
	}, {
		name: "R18 layers",
		root: chart("shop", sub(x)),
		resources: []Resource{
			res("shop", "Deployment/foo", layer, "layer1"),
			res("shop", "Deployment/bar", layer, "layer2", above, "layer1"),
			res("shop", "Deployment/fizz", layer, "layer3", above, `["layer1"]`, uses, "x"),
			res("shop", "Deployment/bad", layer, "layer3", above, `[layer1]`),
			res("shop", "Deployment/worse", layer, "layer3", uses, `["x"`),
			res("shop/x", "Deployment/x"),
		},
		want: []string{
			"shop/x:(unsequenced) = Deployment/x",
			"shop:layer1 = Deployment/foo",
			"shop:layer2 = Deployment/bar < shop:layer1",
			"shop:layer3 = Deployment/fizz < shop/x:(unsequenced) shop:layer1",
			"shop:(unsequenced) = Deployment/bad Deployment/worse < shop:layer1 shop:layer2 shop:layer3",
		},
		warnings: []string{`R2: dependson/layer must be a list, such as '["a", "b"]', but is '[layer1]'`, `R2: helm.sh/dependson/chart must be`},
	}, {
		name: "R19 weights",
		root: chart("shop", sub(x)),
		resources: []Resource{
			res("shop", "ConfigMap/foo", weight, "-2"), res("shop", "ConfigMap/bar", weight, " 10 "), res("shop", "ConfigMap/nine", weight, "9"),
			res("shop", "ConfigMap/fizz", weight, "0"), res("shop", "ConfigMap/none"), res("shop", "ConfigMap/blank", weight, ""),
			res("shop", "ConfigMap/bad", weight, "1.5"), res("shop/x", "ConfigMap/x"),
		},
		want: []string{
			"shop/x:(unsequenced) = ConfigMap/x",
			"shop:-2 = ConfigMap/foo",
			"shop:0 = ConfigMap/blank ConfigMap/fizz ConfigMap/none < shop:-2",
			"shop:9 = ConfigMap/nine < shop:0",
			"shop:10 = ConfigMap/bar < shop:9",
			"shop:(unsequenced) = ConfigMap/bad < shop:-2 shop:0 shop:10 shop:9",
		},
		warnings: []string{`R2: shop: ConfigMap/bad: annotation helm.sh/weight must be an integer, but is '1.5'`},
	}, {
		name: "R20 charts may use different methods; R6 an object without a chart belongs to the root chart",
		root: chart("shop", sub(x)),
		resources: []Resource{
			res("", "ConfigMap/a", weight, "1"), res("shop/x", "ConfigMap/b", in, "b"), res("shop/x/lost", "ConfigMap/c", layer, "c"),
		},
		want: []string{"shop/x/lost:c = ConfigMap/c", "shop/x:b = ConfigMap/b", "shop:1 = ConfigMap/a"},
	}, {
		name: "R24 one readiness annotation without the other",
		resources: []Resource{
			res("shop", "Job/a", AnnotationReadinessFailure, `["{.failed} > 0"]`), res("shop", "Job/b", AnnotationReadinessSuccess, `[]`, AnnotationReadinessFailure, `[]`),
			res("shop", "Job/c", AnnotationReadinessSuccess, `["{.done} == 1"]`, AnnotationReadinessFailure, `[]`),
		},
		want: []string{"shop:(unsequenced) = Job/a Job/b Job/c"},
		warnings: []string{
			"R24: Job/a: helm.sh/readiness-failure is ignored because helm.sh/readiness-success is missing; add it",
			"R24: Job/c: helm.sh/readiness-success is ignored because helm.sh/readiness-failure is empty; add an expression",
		},
	}, {
		name: "a chart that is not in the tree waits like its nearest parent",
		root: chart("shop", sub(x, "y"), sub(y)),
		resources: []Resource{
			res("shop/x/lost", "ConfigMap/a"), res("shop/y/lost/more", "ConfigMap/b"),
		},
		want: []string{
			"shop/y/lost/more:(unsequenced) = ConfigMap/b",
			"shop/x/lost:(unsequenced) = ConfigMap/a < shop/y/lost/more:(unsequenced)",
		},
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			plan, err := Build(test.root, test.resources)
			if err != nil {
				t.Fatal(err)
			}
			sameLines(t, "groups", show(plan.Groups), test.want)
			sameWarnings(t, plan.Warnings, test.warnings)
			checkPlan(t, test.root, test.resources, plan)
		})
	}
}
