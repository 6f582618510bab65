package command

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/ui/report"
)

// TestProgress: slow steps are printed once each, and none after the end.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs bytes.Buffer
		p := &Progress{Notices: report.NewNotices(report.Stream{Writer: &errs})}
		for _, step := range []struct {
			what string
			took time.Duration
		}{{"fetching", 2 * time.Second}, {"loading", 400 * time.Millisecond}, {"rendering", 600 * time.Millisecond}, {"checking", 100 * time.Millisecond}} {
			p.Start(step.what)
			time.Sleep(step.took)
		}
		p.End()
		p.Start("loading after an interrupt")
		time.Sleep(time.Minute)
		if errs.String() != "fetching …\nrendering …\n" {
			t.Errorf("%q", errs.String())
		}
	})
}
