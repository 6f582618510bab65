package report

import _ "embed"

// EventsDoc documents every field and kind of event, as Markdown.
//
//go:embed events.md
var EventsDoc string

// EventsSchema is the JSON schema of an event. It is made from event.Event and
// EventsDoc by a test.
//
//go:embed events.schema.json
var EventsSchema string
