package diagnose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/engine/text"
	"lockstep/kube/status"
)

// refusedByServer starts the cause of a refusal.
const refusedByServer = "refused by the API server: "

// validationRegexp matches the part of a message about an invalid name that quotes the validation regexp.
var validationRegexp = regexp.MustCompile(`, regex used for validation is '.*?'(\)|$)`)

// Explain adds advice to an error of the API server. The result implements run.FindingError. Other errors are returned
// unchanged.
func Explain(err error) error {
	var response apierrors.APIStatus
	if err == nil || !errors.As(err, &response) {
		return err
	}
	text, message := plainMessage(err.Error()), plainMessage(response.Status().Message)
	cause, faults := message, patchFaults(message)
	switch fields := Immutable(err); {
	case IsFieldConflict(err):
		owners, advice := fieldConflict(response.Status().Details.Causes)
		text = owners + "; " + advice
		message, cause = owners, text
	case len(fields) > 0 && apierrors.IsInvalid(err):
		text = strings.Join(fields, ", ") + replaceAdvice(response.Status().Details, fields)
		cause = text
	case ExplainTypes(text) != text:
		text, message = ExplainTypes(text), ExplainTypes(message)
		cause = message
	case LacksPermission(err):
		const advice = "; this user lacks permission: ask an administrator to grant it"
		text, cause = text+advice, cause+advice
	}
	if faults != nil {
		texts := make([]string, len(faults))
		for i, fault := range faults {
			if texts[i] = fault.Text; fault.Quote {
				texts[i] += quoteIt
			}
		}
		cause = strings.Join(texts, "; ")
	}
	cause = withoutName(cause)
	if by := byPolicy(cause); by != "" {
		text, cause = strings.Replace(text, cause, by, 1), by
	} else {
		short := quotaInFigures(cause)
		text, cause = strings.Replace(text, cause, short, 1), short
		cause = refusedByServer + strings.TrimPrefix(cause, refusedByServer)
	}
	return &refusal{err, text, run.Finding{Cause: status.CleanText(cause), Evidence: []string{status.CleanText(message)}}}
}

// replaceAdvice says what to do about an object that cannot be updated.
func replaceAdvice(d *metav1.StatusDetails, fields []string) string {
	switch {
	case d.Kind == "PersistentVolumeClaim":
		return fmt.Sprintf("; keep what the claim has, or replace it, which deletes its data, with --replace %s/%s (upgrade, rollback and up)", d.Kind, d.Name)
	case strings.HasSuffix(fields[0], leftDefault):
		return fmt.Sprintf("; remove it with --server-side=false, or replace the object with --replace %s/%s (upgrade, rollback and up)", d.Kind, d.Name)
	}
	return fmt.Sprintf("; replace it with --replace %s/%s (upgrade, rollback and up), or rename it in the chart", d.Kind, d.Name)
}

// plainMessage returns a message of the API server without the full stop and the validation regexp.
func plainMessage(message string) string {
	return text.TrimFullStop(validationRegexp.ReplaceAllString(message, "$1"))
}

// refusal is an error of the API server with advice and a Finding.
type refusal struct {
	error
	text  string
	found run.Finding
}

func (r *refusal) Error() string        { return r.text }
func (r *refusal) Unwrap() error        { return r.error }
func (r *refusal) Finding() run.Finding { return r.found }

// ExplainRefusal is like Explain, but also reads related objects, for example the webhook that refused the object, or
// the namespace that is being deleted.
func (d *Diagnoser) ExplainRefusal(ctx context.Context, o plan.Object, err error) error {
	if noMatch := (*meta.NoKindMatchError)(nil); errors.As(err, &noMatch) {
		found := d.noMatchFinding(ctx, noMatch)
		return &refusal{err, err.Error() + " (" + found.Cause + ")", found}
	}
	if request := (*url.Error)(nil); errors.As(err, &request) {
		return &noAnswer{request.Err, err}
	}
	explained := Explain(err)
	r := &refusal{}
	if !errors.As(explained, &r) {
		return explained
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	f := d.admissionCause(ctx, o.Namespace, r.found.Evidence[0])
	if o.Group != "" && apierrors.IsServiceUnavailable(err) {
		f.cause = fmt.Sprintf("the API of group %s does not respond", o.Group)
		d.addAPIServiceCauses(ctx, o.Group, &f)
	}
	if f.cause != "" {
		r.found.Cause = status.CleanText(f.cause)
		r.found.Evidence = append(r.found.Evidence, f.evidence...)
		r.text += " (" + r.found.Cause + ")"
	}
	r.found.Details.Notes = r.found.Evidence
	return explained
}

// noAnswer is the error of a write that the API server has not answered, or that was not sent. Helm and client-go put the object and
// the address in front of the reason.
type noAnswer struct{ reason, err error }

func (e *noAnswer) Error() string {
	return "not applied: " + strings.TrimPrefix(e.reason.Error(), "not sent: ")
}

func (e *noAnswer) Unwrap() error { return e.err }

// crdResource is the resource of CustomResourceDefinitions.
var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// noMatchFinding explains that the cluster does not serve a kind, or only other versions of it.
func (d *Diagnoser) noMatchFinding(ctx context.Context, noMatch *meta.NoKindMatchError) run.Finding {
	message := status.CleanText(noMatch.Error())
	found := run.Finding{Cause: message, Evidence: []string{message}, Details: event.Details{Notes: []string{message}}}
	list, err := d.dyn.Resource(crdResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return found
	}
	for i := range list.Items {
		u := &list.Items[i]
		group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(u.Object, "spec", "names", "kind")
		if group != noMatch.GroupKind.Group || kind != noMatch.GroupKind.Kind {
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
			strings.Join(noMatch.SearchedVersions, ", "), kind, u.GetName(), cmp.Or(strings.Join(served, ", "), "none")))
	}
	return found
}

// namespaceTerminating is part of the API server's message about a namespace that accepts no new objects.
const namespaceTerminating = "because it is being terminated"

// admissionCause finds the webhook, namespace or LimitRange that refused an object, given the API server's message. The
// finding is empty if the message itself says enough.
func (d *Diagnoser) admissionCause(ctx context.Context, namespace, message string) finding {
	switch {
	case strings.Contains(message, "webhook "):
		return d.webhookCause(ctx, message)
	case strings.Contains(message, namespaceTerminating):
		r := d.Object(ctx, plan.Object{Kind: "Namespace", Name: namespace})
		why := cmp.Or(r.deletion, r.Cause)
		return finding{cause: fmt.Sprintf("namespace %s is being deleted and accepts no new objects: %s", namespace, why), evidence: r.Evidence}
	case limitRangeError.MatchString(message):
		return d.limitRangeCause(ctx, namespace, message)
	}
	return finding{}
}

// limitRangeError matches the message about a violated LimitRange, which does not name the LimitRange.
var limitRangeError = regexp.MustCompile(`(maximum|minimum) \S+ (usage per|limit to request ratio)|(maximum|minimum) \S+ (usage|ratio) per`)

// limitRangeCause names the LimitRanges of a namespace. One of them refused the object.
func (d *Diagnoser) limitRangeCause(ctx context.Context, namespace, message string) finding {
	list, err := d.kube.CoreV1().LimitRanges(namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return finding{}
	}
	var names []string
	for _, l := range list.Items {
		names = append(names, "LimitRange "+l.Name)
	}
	return finding{cause: "refused by " + strings.Join(names, " or ") + ": " + withoutName(message)}
}

// refusalPrefix matches the start of a refusal: the name of the object, or of a pod that could not be created.
var refusalPrefix = regexp.MustCompile(`^(\(combined from similar events\): )?(Error creating: )?(\S+ "[^"]*" is (forbidden|invalid): )?`)

// withoutName removes the object's name from a refusal.
func withoutName(message string) string { return refusalPrefix.ReplaceAllString(message, "") }

// IsFieldConflict reports whether server-side apply failed because another manager owns fields.
func IsFieldConflict(err error) bool {
	return apierrors.IsConflict(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// fieldManager matches the manager in the message of a conflict: conflict with "kubectl" using v1.
var fieldManager = regexp.MustCompile(`^conflict with ("(?:[^"\\]|\\.)*")`)

// fieldConflict describes which managers own which fields, and what to do.
func fieldConflict(causes []metav1.StatusCause) (owners, advice string) {
	fields := map[string][]string{} // by manager
	var managers []string
	count := 0
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
		count++
	}
	for i, m := range managers {
		managers[i] = m + " owns " + strings.Join(fields[m], ", ")
	}
	advice = "remove the field from the chart or give it the live value, or take it over with --force-conflicts"
	if count > 1 {
		advice = "remove these fields from the chart or give them the live values, or take them over with --force-conflicts"
	}
	return strings.Join(managers, "; "), advice
}

// leftDefault is what the API server says of a Deployment that becomes Recreate by server-side apply: what it has set by default stays.
const leftDefault = "may not be specified when strategy `type` is 'Recreate'"

// immutable matches what the API server says of a field that must not change, also by a rule that compares it with its old
// value (CEL), and of one that an update does not remove.
var immutable = regexp.MustCompile(leftDefault + `|immutable|may not be changed|may not change|can not be less than status\.capacity|only be modified in tandem|` +
	`spec for fields other than|updates to \S+ are forbidden|cannot change roleRef|\boldSelf\b`)

// noResize is what the API server says of a claim that cannot grow, because of its StorageClass.
const noResize = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"

// Immutable lists the immutable fields that a refused update tried to change, each with the reason. Only the text of a message
// shows that a field is immutable. The reason omits the field's value, which may be pages long.
func Immutable(err error) (fields []string) {
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), noResize) {
		return []string{"spec.resources.requests.storage: " + noResize}
	}
	for _, c := range causes(err) {
		if reason := immutableReason(c.Message); reason != "" {
			fields = append(fields, c.Field+": "+reason)
		}
	}
	return fields
}

// NamesNoField reports whether the API server refuses an object's whole spec and does not say which of its fields: so does
// Kubernetes of claims, and older versions of StatefulSets.
func NamesNoField(err error) bool {
	return slices.ContainsFunc(causes(err), func(c metav1.StatusCause) bool { return c.Field == "spec" })
}

// causes returns what the API server says of each field of an object that it calls invalid.
func causes(err error) []metav1.StatusCause {
	var response apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &response) || response.Status().Details == nil {
		return nil
	}
	return response.Status().Details.Causes
}

// immutableReason returns the part of a message that says why a field must not change, "" if it says something else. The first
// line may quote the field's value; a message about the object as a whole goes on with the differences.
func immutableReason(message string) string {
	reason, _, _ := strings.Cut(message, "\n")
	if _, rule, found := strings.Cut(reason, "failed rule: "); found {
		reason = rule
	} else if at := strings.LastIndex(reason, ": "); at >= 0 {
		reason = reason[at+len(": "):]
	}
	if !immutable.MatchString(reason) {
		return ""
	}
	return text.TrimFullStop(reason)
}
