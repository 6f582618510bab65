package diagnose

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
)

// Messages of the API server about a refused request: by the authorizer, by a policy, by a webhook.
var (
	rbacDenied    = regexp.MustCompile(`User "([^"]*)" cannot (\S+) (?:path |resource "([^"]*)"(?: in API group "([^"]*)"(?: in the namespace "([^"]*)")?)?)`)
	policyDenied  = regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)'`)
	policyReason  = regexp.MustCompile(`(?s)^ValidatingAdmissionPolicy '([^']+)' with binding '[^']*' denied request: (.*)`)
	webhookDenied = regexp.MustCompile(`admission webhook "([^"]+)" denied the request(?:: | without explanation)?(.*)`)
	quotaExceeded = regexp.MustCompile(`^exceeded quota: ([^,]+), requested: (\S+), used: (\S+), limited: (\S+)$`)
)

// byPolicy says why a policy refused a request, and which one, given the message without the object's name. It returns "" if none did.
func byPolicy(message string) string {
	if m := policyReason.FindStringSubmatch(message); m != nil {
		return refusedFor(m[2], "ValidatingAdmissionPolicy "+m[1])
	}
	return ""
}

// refusedFor is the cause of a refusal. The reason comes first, because the names of those who refuse are long.
func refusedFor(reason, by string) string { return fmt.Sprintf("refused: %s (%s)", reason, by) }

// quotaInFigures shortens the message about an exceeded quota to the requested amount and the rest of each resource.
// Other messages are unchanged.
func quotaInFigures(message string) string {
	m := quotaExceeded.FindStringSubmatch(message)
	if m == nil {
		return message
	}
	used, err := labels.ConvertSelectorToLabelsMap(m[3])
	hard, err2 := labels.ConvertSelectorToLabelsMap(m[4])
	if err != nil || err2 != nil {
		return message
	}
	var figures []string
	for requested := range strings.SplitSeq(m[2], ",") {
		name, _, _ := strings.Cut(requested, "=")
		left, err := resource.ParseQuantity(hard[name])
		taken, err2 := resource.ParseQuantity(used[name])
		if err != nil || err2 != nil {
			return message
		}
		if left.Sub(taken); left.Sign() < 0 {
			left = resource.Quantity{}
		}
		figures = append(figures, fmt.Sprintf("%s (%s left)", requested, left.String()))
	}
	return fmt.Sprintf("exceeded quota %s: requested %s", m[1], strings.Join(figures, ", "))
}

// Denied is a request for which the user lacks a permission. Resource is "" for a path, Namespace at the cluster scope.
type Denied struct{ User, Verb, Resource, Group, Namespace string }

// DeniedRequest returns the request that the authorizer denied; ok is false for other errors. Admission (a quota, a LimitRange,
// a policy, PodSecurity, a webhook) also responds with 403, but with other messages.
func DeniedRequest(err error) (d Denied, ok bool) {
	if !apierrors.IsForbidden(err) {
		return Denied{}, false
	}
	m := rbacDenied.FindStringSubmatch(err.Error())
	if m == nil {
		return Denied{}, false
	}
	return Denied{m[1], m[2], m[3], m[4], m[5]}, true
}

// LacksPermission reports whether a request was refused because the user lacks a permission.
func LacksPermission(err error) bool {
	_, lacks := DeniedRequest(err)
	return lacks
}

// DeniedBy returns the policy or the webhook that refused an object, which may depend on other objects; both are "" for other
// errors, and for nil.
func DeniedBy(err error) (policy, webhook string) {
	if err == nil {
		return "", ""
	}
	message := err.Error()
	var response apierrors.APIStatus
	if errors.As(err, &response) { // Explain has other words for it
		message = response.Status().Message
	}
	if m := policyDenied.FindStringSubmatch(message); m != nil {
		policy = m[1]
	}
	if m := webhookDenied.FindStringSubmatch(message); m != nil {
		webhook = m[1]
	}
	return policy, webhook
}
