package diagnose

import (
	"errors"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Messages of the API server about a refused request: by the authorizer, by a policy, by a webhook.
var (
	rbacDenied    = regexp.MustCompile(`User "([^"]*)" cannot (\S+) (?:path |resource "([^"]*)"(?: in API group "([^"]*)"(?: in the namespace "([^"]*)")?)?)`)
	policyDenied  = regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)'`)
	policyReason  = regexp.MustCompile(`(?s)^ValidatingAdmissionPolicy '([^']+)' with binding '[^']*' denied request: (.*)`)
	webhookDenied = regexp.MustCompile(`admission webhook "([^"]+)" denied the request(?:: | without explanation)?(.*)`)
)

// byPolicy says which policy refused a request, and why, given the message without the object's name. It returns "" if none did.
func byPolicy(message string) string {
	if m := policyReason.FindStringSubmatch(message); m != nil {
		return "refused by ValidatingAdmissionPolicy " + m[1] + ": " + m[2]
	}
	return ""
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
