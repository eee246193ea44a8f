// SPDX-License-Identifier: Apache-2.0

package zap

import (
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
)

// writer makes the findings. It uses one finding again and again.
type writer struct {
	emit sdk.Emit
	f    finding.Finding
	urls []byte
}

func (w *writer) write(r *reader) error {
	a := &r.alert
	if err := w.writeURLs(a); err != nil {
		return err
	}
	solution := orNull(a.stripped(fieldSolution))
	w.f = finding.Finding{
		Location:   r.site.name,
		OSILayer:   finding.String("APPLICATION"),
		Severity:   finding.String(severityOf(a.composed(fieldRiskcode))),
		References: a.references(w.f.References.List[:0]),
		Mitigation: solution,
		Attributes: append(w.f.Attributes[:0],
			finding.Member{Key: "hostname", Value: r.site.host},
			finding.Member{Key: "port", Value: r.site.port},
			finding.Member{Key: "zap_confidence", Value: a.copied(fieldConfidence)},
			finding.Member{Key: "zap_count", Value: a.copied(fieldHits)},
			finding.Member{Key: "zap_solution", Value: solution},
			finding.Member{Key: "zap_otherinfo", Value: otherinfo(a.stripped(fieldOtherinfo))},
			finding.Member{Key: "zap_reference", Value: orNull(a.stripped(fieldReference))},
			finding.Member{Key: "zap_cweid", Value: a.copied(fieldCWEID)},
			finding.Member{Key: "zap_wascid", Value: a.copied(fieldWASCID)},
			finding.Member{Key: "zap_riskcode", Value: a.copied(fieldRiskcode)},
			finding.Member{Key: "zap_pluginid", Value: a.copied(fieldPluginID)},
			finding.Member{Key: "zap_finding_urls", Value: finding.Raw(w.urls)},
		),
		Extra: append(w.f.Extra[:0], finding.Member{Key: "hint", Value: a.copied(fieldHint)}),
	}
	name, ok := a.stripped(fieldName)
	w.setText(&w.f.Name, "name", name, ok)
	w.setCategory(a)
	description, ok := a.stripped(fieldDesc)
	w.setText(&w.f.Description, "description", description, ok)
	return w.emit(&w.f)
}

// setText gives a field of the finding a text, or the value false where there is none.
func (w *writer) setText(target *finding.Text, key, text string, ok bool) {
	if !ok {
		w.f.Extra = append(w.f.Extra, finding.Member{Key: key, Value: false})
		return
	}
	*target = finding.String(text)
}

// setCategory takes the alert's title as it is, and its name where there is no title.
func (w *writer) setCategory(a *alert) {
	switch title := a.copied(fieldAlert).(type) {
	case string:
		w.f.Category = finding.String(title)
	case nil:
		name, ok := a.stripped(fieldName)
		w.setText(&w.f.Category, "category", name, ok)
	default:
		w.f.Extra = append(w.f.Extra, finding.Member{Key: "category", Value: title})
	}
}

// writeURLs writes the instances as a JSON array.
func (w *writer) writeURLs(a *alert) error {
	w.urls = append(w.urls[:0], '[')
	for n := range a.instances {
		if n > 0 {
			w.urls = append(w.urls, ',')
		}
		if err := w.writeInstance(a, &a.instances[n]); err != nil {
			return err
		}
	}
	w.urls = append(w.urls, ']')
	return nil
}

func (w *writer) writeInstance(a *alert, i *instance) error {
	text, _ := a.get(&i.text)
	if i.attrs == nil && i.from == i.to {
		w.urls = finding.AppendString(w.urls, text)
		return nil
	}
	w.urls = append(w.urls, '{')
	if i.text.there {
		w.writeKey("_")
		w.urls = finding.AppendString(w.urls, text)
	}
	if i.attrs != nil {
		w.writeKey("$")
		if err := w.writeObject(i.attrs); err != nil {
			return err
		}
	}
	for n := i.from; n < i.to; n++ {
		m := &a.members[n]
		w.writeKey(m.name)
		if m.value.object == 0 {
			text, _ := a.get(&m.value)
			w.urls = finding.AppendString(w.urls, text)
		} else if err := w.writeObject(a.object(&m.value)); err != nil {
			return err
		}
	}
	w.urls = append(w.urls, '}')
	return nil
}

func (w *writer) writeKey(key string) {
	if w.urls[len(w.urls)-1] != '{' {
		w.urls = append(w.urls, ',')
	}
	w.urls = finding.AppendString(w.urls, key)
	w.urls = append(w.urls, ':')
}

func (w *writer) writeObject(o finding.Object) (err error) {
	w.urls, err = finding.AppendValue(w.urls, o)
	return err
}

func severityOf(risk string) string {
	switch ecma.ParseInt(risk) {
	case 0:
		return finding.Informational
	case 1:
		return finding.Low
	case 2:
		return finding.Medium
	}
	return finding.High
}

// references are the parts of the alert's reference, and its CWE.
func (a *alert) references(list []finding.Reference) finding.References {
	text, _ := a.get(&a.fields[fieldReference])
	for part := range strings.SplitSeq(text, "<p>") {
		if part != "" {
			list = append(list, finding.Reference{Type: "URL", Value: strip(part)})
		}
	}
	if cwe := a.composed(fieldCWEID); a.fields[fieldCWEID].there && cwe != "-1" {
		list = append(list,
			finding.Reference{Type: "CWE", Value: "CWE-" + cwe},
			finding.Reference{Type: "URL", Value: "https://cwe.mitre.org/data/definitions/" + cwe + ".html"})
	}
	if len(list) == 0 {
		return finding.References{List: list, Null: true}
	}
	return finding.References{List: list}
}

func orNull(text string, _ bool) finding.Text { return finding.StringOrNull(text) }

// maxOtherinfo is where other information is cut, in UTF-16 units.
const maxOtherinfo = 2048

func otherinfo(text string, _ bool) finding.Text {
	if len(text) >= maxOtherinfo && ecma.Length(text) >= maxOtherinfo { // no text has more units than bytes
		text = ecma.Substring(text, 0, maxOtherinfo) + "..."
	}
	return finding.StringOrNull(text)
}

// strip takes everything from a '<' to the next '>' out of a text.
func strip(text string) string {
	from := strings.IndexByte(text, '<')
	if from < 0 {
		return text
	}
	rest := make([]byte, 0, len(text))
	for {
		length := strings.IndexByte(text[from:], '>')
		if length < 0 {
			return string(append(rest, text...))
		}
		rest = append(rest, text[:from]...)
		text = text[from+length+1:]
		if from = strings.IndexByte(text, '<'); from < 0 {
			return string(append(rest, text...))
		}
	}
}
