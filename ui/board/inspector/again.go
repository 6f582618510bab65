package inspector

import (
	tea "charm.land/bubbletea/v2"
)

// Again asks anew what the open tab shows, where the moment that it is asked about
// is another one. Who has scrolled stays where they were.
func (i *Inspector) Again() tea.Cmd {
	if i.answers == nil || !i.Tab.asks() || i.about == (Item{}) {
		return nil
	}
	i.N++
	if i.Tab == TabLogs {
		i.text = nil
	}
	return i.question(i.Tab, i.about)
}
