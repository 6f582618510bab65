// Package diagnose finds out why an object in the cluster is not ready: from its
// conditions, its events, its pods and the last lines of their logs. It also
// reads what the screen's inspector shows about an object.
//
// Nothing here changes the cluster. What cannot be read, because of a missing
// right for instance, becomes a line of the report instead of an error. Text
// from the cluster is cleaned (status.CleanText), except for the logs that the
// inspector follows, and the values of Secrets are never shown.
package diagnose
