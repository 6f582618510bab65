package diagnose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/status"
)

// rbacDenied matches the API server's message if the authorizer denied a request. Admission (a quota, a LimitRange, a
// policy, PodSecurity, a webhook) also answers 403, with other messages.
var rbacDenied = regexp.MustCompile(`User "([^"]*)" cannot (\S+) (?:resource "([^"]*)"|path )`)

// LacksPermission reports whether a request was refused because the user lacks a permission.
func LacksPermission(err error) bool {
	return apierrors.IsForbidden(err) && rbacDenied.MatchString(err.Error())
}

// Explain adds advice for the user to an error of the API server. The result implements run.FindingError.
func Explain(err error) error {
	var answer apierrors.APIStatus
	if err == nil || !errors.As(err, &answer) {
		return err
	}
	words := answer.Status().Message
	refuse := func(full, short string) error {
		cause := status.CleanText("refused: " + strings.TrimPrefix(withoutName(short), "refused: "))
		return &refusal{err, full, run.Finding{Cause: cause, Evidence: []string{status.CleanText(words)}}}
	}
	advise := func(advice string) error { return refuse(err.Error()+"; "+advice, words+"; "+advice) }
	switch fields := immutable(err); {
	case IsFieldConflict(err):
		conflict := fieldConflict(answer.Status().Details.Causes)
		return refuse(conflict, conflict)
	case len(fields) > 0:
		short := strings.Join(fields, ", ") + "; delete the object and try again, or rename it in the chart"
		return refuse(short, short)
	case rawValueText.MatchString(err.Error()):
		const wrongType = "has the wrong type; quote a number or boolean meant as text"
		words = rawValueText.ReplaceAllString(words, wrongType)
		return refuse(rawValueText.ReplaceAllString(err.Error(), wrongType), words)
	case LacksPermission(err):
		return advise("this user lacks permission")
	}
	return refuse(err.Error(), words)
}

// refusal is an error of the API server with advice and a cause.
type refusal struct {
	error
	text  string
	found run.Finding
}

func (r *refusal) Error() string        { return r.text }
func (r *refusal) Unwrap() error        { return r.error }
func (r *refusal) Finding() run.Finding { return r.found }

// Refused is like Explain, but also reads related objects: the webhook that refused an object
// or does not answer, the namespace that accepts no new objects.
func (d *Diagnoser) Refused(ctx context.Context, o plan.Object, err error) error {
	if no := (*meta.NoKindMatchError)(nil); errors.As(err, &no) {
		found := d.otherVersions(ctx, no)
		return &refusal{err, err.Error() + " (" + found.Cause + ")", found}
	}
	explained := Explain(err)
	r := &refusal{}
	if !errors.As(explained, &r) {
		return explained
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	l := d.admission(ctx, o.Namespace, r.found.Evidence[0])
	if o.Group != "" && apierrors.IsServiceUnavailable(err) {
		l.cause = fmt.Sprintf("the API of group %s does not answer", o.Group)
		d.addAPIServiceCauses(ctx, o.Group, &l)
	}
	if l.cause != "" {
		r.found.Cause = status.CleanText(l.cause)
		r.found.Evidence = append(r.found.Evidence, l.evidence...)
		r.text += " (" + r.found.Cause + ")"
	}
	r.found.Lines = r.found.Evidence
	return explained
}

// crdResource is the resource of CustomResourceDefinitions.
var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// otherVersions finds the versions of a kind that the cluster serves.
func (d *Diagnoser) otherVersions(ctx context.Context, no *meta.NoKindMatchError) run.Finding {
	words := status.CleanText(no.Error())
	found := run.Finding{Cause: words, Evidence: []string{words}, Lines: []string{words}}
	list, err := d.dyn.Resource(crdResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return found
	}
	for i := range list.Items {
		u := &list.Items[i]
		group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(u.Object, "spec", "names", "kind")
		if group != no.GroupKind.Group || kind != no.GroupKind.Kind {
			continue
		}
		versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
		var served []string
		for _, v := range versions {
			if m, _ := v.(map[string]any); m["served"] == true {
				served = append(served, fmt.Sprint(m["name"]))
			}
		}
		found.Cause = status.CleanText(fmt.Sprintf("the cluster does not serve version %s of %s: CustomResourceDefinition %s serves %s",
			strings.Join(no.SearchedVersions, ", "), kind, u.GetName(), cmp.Or(strings.Join(served, ", "), "none")))
	}
	return found
}

// admission finds the webhook, namespace or LimitRange that refused an object, from the API
// server's message. The lead is empty if the message is enough.
func (d *Diagnoser) admission(ctx context.Context, namespace, words string) lead {
	switch {
	case strings.Contains(words, "webhook "):
		return d.webhook(ctx, words)
	case strings.Contains(words, "because it is being terminated"):
		r := d.Object(ctx, plan.Object{Kind: "Namespace", Name: namespace})
		return lead{cause: fmt.Sprintf("namespace %s is being deleted and accepts no new objects: %s", namespace, r.Cause), evidence: r.Evidence}
	case limitRangeError.MatchString(words):
		return d.limitRangeCause(ctx, namespace, words)
	}
	return lead{}
}

// limitRangeError matches the message of a LimitRange, which lacks its name.
var limitRangeError = regexp.MustCompile(`(maximum|minimum) \S+ (usage per|limit to request ratio)|(maximum|minimum) \S+ (usage|ratio) per`)

// limitRangeCause names the LimitRanges of a namespace, one of which refused an object.
func (d *Diagnoser) limitRangeCause(ctx context.Context, namespace, words string) lead {
	list, err := d.kube.CoreV1().LimitRanges(namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return lead{}
	}
	var names []string
	for _, l := range list.Items {
		names = append(names, "LimitRange "+l.Name)
	}
	return lead{cause: "refused by " + strings.Join(names, " or ") + ": " + withoutName(words)}
}

// refusalPrefix matches the start of a refusal, which names the object, or a pod with a generated name.
var refusalPrefix = regexp.MustCompile(`^(\(combined from similar events\): )?(Error creating: )?(\S+ "[^"]*" is (forbidden|invalid): )?`)

// withoutName removes the object's name from a refusal.
func withoutName(words string) string { return refusalPrefix.ReplaceAllString(words, "") }

// rawValueText matches the value in the API server's message about a field with the wrong type. It may be secret.
var rawValueText = regexp.MustCompile(`got &value\.valueUnstructured\{Value:.*?\}`)

// IsFieldConflict reports whether server-side apply failed because another manager owns fields.
func IsFieldConflict(err error) bool {
	return apierrors.IsConflict(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// fieldManager matches the manager in the message of a conflict: conflict with "kubectl" using v1.
var fieldManager = regexp.MustCompile(`^conflict with ("(?:[^"\\]|\\.)*")`)

// fieldConflict says which managers own which fields, and what to do.
func fieldConflict(causes []metav1.StatusCause) string {
	fields := map[string][]string{} // by manager
	var managers []string
	n := 0
	for _, c := range causes {
		if c.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		manager := "another manager"
		if m := fieldManager.FindStringSubmatch(c.Message); m != nil {
			manager = m[1]
		}
		if fields[manager] == nil {
			managers = append(managers, manager)
		}
		fields[manager] = append(fields[manager], c.Field)
		n++
	}
	for i, m := range managers {
		managers[i] = m + " owns " + strings.Join(fields[m], ", ")
	}
	advice := "; remove the field from the chart, or take it over with --force-conflicts"
	if n > 1 {
		advice = "; remove these fields from the chart, or take them over with --force-conflicts"
	}
	return strings.Join(managers, "; ") + advice
}

// immutableWords are parts of the API server's messages about immutable fields.
var immutableWords = []string{
	"field is immutable", "may not be changed", "may not change once set", "spec for fields other than",
	"pod updates may not change", "spec is immutable after creation",
}

// immutable lists the immutable fields that an update tried to change, each with the reason. Immutability can only be
// recognized by the text of the message, which also contains the value, possibly pages of it.
func immutable(err error) (fields []string) {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	for _, c := range status.Status().Details.Causes {
		for _, words := range immutableWords {
			at := strings.Index(c.Message, words)
			if at < 0 {
				continue
			}
			reason := c.Message[at:]
			if strings.HasPrefix(words, "spec ") || words == "pod updates may not change" {
				reason, _, _ = strings.Cut(c.Message, "\n")
			}
			fields = append(fields, c.Field+": "+reason)
			break
		}
	}
	return fields
}
