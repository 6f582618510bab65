package report

import _ "embed"

// EventsDoc documents every field and kind of event, as Markdown.
//
//go:embed events.md
var EventsDoc string
