package reportfile

import (
	"testing"

	"lockstep/engine/inspect"
	"lockstep/engine/plan"
)

func TestPlanAsMarkdown(t *testing.T) {
	object := func(name string) plan.Object { return plan.Object{Kind: "ConfigMap", Name: name} }
	got := Plan{
		Title: "plan: upgrade shop", Summary: "1 to create",
		Changes: []inspect.Change{
			{Group: "shop:a|b", Object: object("a"), Action: inspect.Modify, Diff: "@@ -1 +1 @@\n-a: 1\n+a: ```\n", Message: "<b>"},
			{Group: "shop:c", Object: object("same"), Action: inspect.Unchanged},
			{Group: "shop:c", Object: object("new"), Action: inspect.Create},
		},
		Warnings: []Warning{{Rule: "R8", Message: "no group x"}}, Notes: []string{"saved by alice"},
	}.Markdown()
	const want = "### plan: upgrade shop\n\n1 to create\n\n" +
		"| group | object | action |\n|---|---|---|\n" +
		"| shop:a\\|b | ConfigMap/a | change: &lt;b\\> |\n" +
		"| shop:c | ConfigMap/new | create |\n\n" +
		"<details><summary>ConfigMap/a</summary>\n\n````diff\n@@ -1 +1 @@\n-a: 1\n+a: ```\n````\n\n</details>\n\n" +
		"<details><summary>1 warning</summary>\n\n- no group x (R8)\n\n</details>\n\n- saved by alice\n"
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
