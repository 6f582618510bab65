package charts

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	// wrapperCall matches what an error says about the wrapper between the
	// template's name and the place in the hidden partial.
	wrapperCall = regexp.MustCompile(fmt.Sprintf(
		`:1:%d:?\s+executing "([^"]*)" at <include "(%s[^"]*)" \.>:\s+error calling include:\s+(?:template: )?`, wrapperColumn, hiddenMark))
	wrapperPlace = regexp.MustCompile(fmt.Sprintf(`:1:%d\b`, wrapperColumn))
	hiddenName   = regexp.MustCompile(hiddenMark + `\d+\.([^\s"()]*/)_`)
)

// CleanError returns err with the names of the user's own templates in place
// of those that WrapTemplates made. For a call of fail or required in a
// wrapped template Helm names the place of the wrapper; then the place is left
// out.
func CleanError(err error) error {
	if !ofWrapper(err) {
		return err
	}
	return &cleanError{clean(err.Error()), err}
}

// ofWrapper reports whether err is about the execution or the syntax of a
// wrapped template.
func ofWrapper(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, hiddenMark) || wrapperPlace.MatchString(text)
}

func clean(text string) string {
	for {
		m := wrapperCall.FindStringSubmatchIndex(text)
		if m == nil {
			break
		}
		name, hidden := text[m[2]:m[3]], text[m[4]:m[5]]
		text = strings.TrimSuffix(text[:m[0]], name) + text[m[1]:]
		text = strings.ReplaceAll(text, hidden, name)
	}
	text = hiddenName.ReplaceAllString(text, "$1")
	return wrapperPlace.ReplaceAllString(text, "")
}

type cleanError struct {
	text string
	err  error
}

func (e *cleanError) Error() string { return e.text }
func (e *cleanError) Unwrap() error { return e.err }
