// SPDX-License-Identifier: Apache-2.0

package trackers

import (
	"context"
	"strings"

	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/hooks/notification/channel"
	"github.com/scanyard/scanyard/hooks/notification/message"
)

// TrelloCards is the address where none is set.
const TrelloCards = "https://api.trello.com/1/cards"

// trello makes a card of each finding. Trello cannot detect a repetition.
type trello struct {
	address                       string
	key, token, list, labels, pos string
	prefix                        string
}

// NewTrello makes what reports findings as cards.
func NewTrello(s *channel.Settings) (channel.Reporter, error) {
	r := &trello{address: TrelloCards, pos: s.Text("TRELLO_POS", "top"), labels: s.Text("TRELLO_LABELS", ""), prefix: s.Text("TRELLO_TITLE_PREFIX", "")}
	other, err := s.Env.Secret("TRELLO_CARDS_ENDPOINT")
	if err != nil {
		return nil, err
	}
	if other != "" {
		if r.address, err = s.Address(); err != nil {
			return nil, err
		}
	}
	for name, field := range map[string]*string{"TRELLO_KEY": &r.key, "TRELLO_TOKEN": &r.token, "TRELLO_LIST": &r.list} {
		if *field, err = s.Require(name); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Report makes a card of a finding.
func (r *trello) Report(ctx context.Context, t *channel.Task, e *message.Entry) error {
	card := map[string]any{
		"key": r.key, "token": r.token, "idList": r.list, "pos": r.pos,
		"name": r.prefix + e.Member("name") + "(" + e.Member("severity") + ")",
		"desc": trelloText(t.Scan, e),
	}
	if e.Failure {
		card["name"], card["desc"] = r.prefix+e.Title, e.Text
	}
	if r.labels != "" {
		card["idLabels"] = r.labels
	}
	return t.Post(ctx, r.address, channel.JSONHeader(), card, nil)
}

// maxTrello is what Trello takes for the text of a card.
const maxTrello = 16384

func trelloText(s *message.Scan, e *message.Entry) string {
	var card strings.Builder
	line := func(label, value string) {
		if value != "" {
			card.WriteString(label + ": " + value + "\n")
		}
	}
	line("Scan Type", s.Spec.ScanType)
	line("Location", e.Member("location"))
	line("Description", e.Member("description"))
	if solution, ok := e.Attribute("zap_solution"); ok {
		line("Solution", solution)
	}
	if reference, ok := e.Attribute("zap_reference"); ok {
		line("Reference", reference)
	}
	return text.CutRunes(card.String(), maxTrello)
}
