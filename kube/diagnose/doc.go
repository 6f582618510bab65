// Package diagnose finds out why an object of the cluster is not ready: from
// its conditions, its events, its pods and the last lines of their logs. It
// also reads what the screen's inspector shows of an object.
//
// Nothing here changes the cluster. What cannot be read, for want of a right
// for instance, becomes a line of the report instead of an error. Text from the
// cluster comes cleaned (status.CleanText), and the values of Secrets are never
// shown.
package diagnose
