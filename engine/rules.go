package engine

import (
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"lockstep/engine/text"
)

// RulesDoc is RULES.md: the rules that comments, tests and messages cite by number, as Markdown.
//
//go:embed RULES.md
var RulesDoc string

// Rule is one entry of RulesDoc.
type Rule struct {
	ID, Title string // "R12", "Names of subcharts"
	Text      string // the whole entry, with its heading
}

var (
	ruleHeading = regexp.MustCompile(`(?m)^### ([RS][0-9]+[a-z]?) (.+)$`)
	nextHeading = regexp.MustCompile(`\n#{1,3} `)
	ruleID      = regexp.MustCompile(`^([RrSs]?)([0-9]+)([a-z]?)$`)
)

// Rules returns the entries of RulesDoc in its order.
func Rules() []Rule {
	var rules []Rule
	for _, at := range ruleHeading.FindAllStringSubmatchIndex(RulesDoc, -1) {
		text := RulesDoc[at[0]:]
		if end := nextHeading.FindStringIndex(text); end != nil {
			text = text[:end[0]]
		}
		rules = append(rules, Rule{
			ID:    RulesDoc[at[2]:at[3]],
			Title: RulesDoc[at[4]:at[5]],
			Text:  strings.TrimSpace(text) + "\n",
		})
	}
	return rules
}

// FindRule looks up a rule by its number: "S3", "R12", "r12" or "12".
func FindRule(name string) (Rule, error) {
	parts := ruleID.FindStringSubmatch(name)
	if parts == nil {
		return Rule{}, fmt.Errorf("%q is not a rule number (they look like R12 or R15a); list all with: "+text.Program+" help rules", name)
	}
	id := strings.ToUpper(cmp.Or(parts[1], "R")) + parts[2] + parts[3]
	rules := Rules()
	if i := slices.IndexFunc(rules, func(r Rule) bool { return r.ID == id }); i >= 0 {
		return rules[i], nil
	}
	return Rule{}, fmt.Errorf("no rule %s; list all with: "+text.Program+" help rules", id)
}
