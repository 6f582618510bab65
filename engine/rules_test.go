package engine

import (
	"slices"
	"strings"
	"testing"
)

func TestRulesHaveANumberATitleAndAText(t *testing.T) {
	rules := Rules()
	if n := strings.Count(RulesDoc, "\n### "); n != len(rules) {
		t.Errorf("%d rules for %d headings", len(rules), n)
	}
	seen := map[string]bool{}
	for _, r := range rules {
		heading, text, _ := strings.Cut(r.Text, "\n")
		if seen[r.ID] || heading != "### "+r.ID+" "+r.Title || len(text) < 40 || strings.Contains(text, "\n#") {
			t.Errorf("%s: %q", r.ID, r.Text)
		}
		seen[r.ID] = true
	}
}

func TestFindRule(t *testing.T) {
	for _, name := range []string{"R15a", "r15a", "15a"} {
		if r, err := FindRule(name); err != nil || r.ID != "R15a" {
			t.Errorf("%s: %q, %v", name, r.ID, err)
		}
	}
	wrong := map[string]string{
		"R38":                   "no rule R38; list all with: lockstep help rules",
		"R12x":                  "no rule R12x; list all",
		"R99999999999999999999": "no rule R99999999999999999999; list all",
		"s99":                   "no rule S99; list all",
		"helm":                  `"helm" is not a rule number (they look like R12 or R15a); list all with: lockstep help rules`,
		"":                      `"" is not a rule number (they look like R12 or R15a); list all with: lockstep help rules`,
		"R":                     `"R" is not a rule number (they look like R12 or R15a); list all with: lockstep help rules`,
	}
	for name, want := range wrong {
		if _, err := FindRule(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// TestRulesCiteRulesThatExist looks up every number in the text.
func TestRulesCiteRulesThatExist(t *testing.T) {
	rules := Rules()
	for word := range strings.FieldsFuncSeq(RulesDoc, func(r rune) bool { return !strings.ContainsRune("R0123456789abc", r) }) {
		if ruleID.MatchString(word) && word[0] == 'R' && !slices.ContainsFunc(rules, func(r Rule) bool { return r.ID == word }) {
			t.Errorf("%s does not exist", word)
		}
	}
}
