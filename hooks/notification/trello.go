// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"context"
	"strings"
)

const trelloCards = "https://api.trello.com/1/cards"

// trello makes a card of each finding. Trello cannot tell a repetition.
type trello struct {
	address                       string
	key, token, list, labels, pos string
	prefix                        string
}

func newTrello(s *settings) (reporter, error) {
	r := &trello{address: trelloCards, pos: s.plain("TRELLO_POS", "top"), labels: s.plain("TRELLO_LABELS", ""), prefix: s.plain("TRELLO_TITLE_PREFIX", "")}
	other, err := s.env.Secret("TRELLO_CARDS_ENDPOINT")
	if err != nil {
		return nil, err
	}
	if other != "" {
		if r.address, err = s.address(); err != nil {
			return nil, err
		}
	}
	for name, field := range map[string]*string{"TRELLO_KEY": &r.key, "TRELLO_TOKEN": &r.token, "TRELLO_LIST": &r.list} {
		if *field, err = s.require(name); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *trello) report(ctx context.Context, t *task, e *entry) error {
	card := map[string]any{
		"key": r.key, "token": r.token, "idList": r.list, "pos": r.pos,
		"name": r.prefix + e.member("name") + "(" + e.member("severity") + ")",
		"desc": trelloText(t.scan, e),
	}
	if e.failure {
		card["name"], card["desc"] = r.prefix+e.title, e.text
	}
	if r.labels != "" {
		card["idLabels"] = r.labels
	}
	return t.post(ctx, r.address, jsonHeader(), card, nil)
}

// maxTrello is what Trello takes for the text of a card.
const maxTrello = 16384

func trelloText(s *scan, e *entry) string {
	var text strings.Builder
	line := func(label, value string) {
		if value != "" {
			text.WriteString(label + ": " + value + "\n")
		}
	}
	line("Scan Type", s.Spec.ScanType)
	line("Location", e.member("location"))
	line("Description", e.member("description"))
	if solution, ok := e.attribute("zap_solution"); ok {
		line("Solution", solution)
	}
	if reference, ok := e.attribute("zap_reference"); ok {
		line("Reference", reference)
	}
	return cut(maxTrello, text.String())
}
