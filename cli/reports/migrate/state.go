// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

const (
	// stateName is the ConfigMap of the state. Its keys are the groups.
	stateName = "reports-migration"
	// recordKey is the key of the objects in the ConfigMaps of the record.
	recordKey = "objects"
	// recordObjects is how many objects a ConfigMap of the record holds: about 600 KiB, of the 1 MiB that one may have.
	recordObjects = 8_000
	// recordBytes bounds what is read of one, since it is compressed.
	recordBytes = 64 << 20
)

// phase is how far the move of a group is.
type phase string

const (
	// phaseNew is before the first switch.
	phaseNew phase = ""
	// phaseSwitching has everything copied and recorded; the APIService shows whether the switch was made.
	phaseSwitching phase = "switching"
	// phaseSettled has the CRDs' watches ended.
	phaseSettled phase = "settled"
	// phaseCompared has found no difference.
	phaseCompared phase = "compared"
	// phaseReturning has everything written to etcd and recorded on the way back; the APIService shows whether the switch was made.
	phaseReturning phase = "returning"
	// phaseDone is the end.
	phaseDone phase = "done"
)

// state is what is noted of a group.
type state struct {
	Phase phase `json:"phase"`
	// Counter is the server's counter at the switch: what has a higher resourceVersion was written since.
	Counter string `json:"counter,omitempty"`
	// Records is how many ConfigMaps hold the objects.
	Records int `json:"records,omitempty"`
	// Updated is when this was noted.
	Updated string `json:"updated,omitempty"`
}

func (s *state) encode() (string, error) {
	text, err := json.Marshal(s)
	return string(text), err
}

func decodeState(text string) (state, error) {
	var s state
	if text == "" {
		return s, nil
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("ConfigMap %s cannot be read (%w): delete it, if no move is under way", stateName, err)
	}
	return s, nil
}

// recordName is the ConfigMap of a part of the record.
func recordName(g *group, part int) string {
	return fmt.Sprintf("%s-%s-%d", stateName, g.name, part)
}

// encodeRecord makes the contents of the ConfigMaps that hold the objects.
func encodeRecord(objects map[place]copied) ([][]byte, error) {
	lines := make([]recorded, 0, len(objects))
	for at, object := range objects {
		lines = append(lines, recorded{at, object})
	}
	slices.SortFunc(lines, func(a, b recorded) int { return strings.Compare(a.Place.String(), b.Place.String()) })
	var parts [][]byte
	for chunk := range slices.Chunk(lines, recordObjects) {
		var part bytes.Buffer
		zipped := gzip.NewWriter(&part)
		encoder := json.NewEncoder(zipped)
		for _, line := range chunk {
			if err := encoder.Encode(line); err != nil {
				return nil, err
			}
		}
		if err := zipped.Close(); err != nil {
			return nil, err
		}
		parts = append(parts, part.Bytes())
	}
	return parts, nil
}

// recorded is a line of the record. Before the switch it says what may have been sent, without a hash, and several
// lines may be about one place.
type recorded struct {
	Place  place  `json:"p"`
	Object copied `json:"o"`
}

// decodeRecord reads what a ConfigMap holds.
func decodeRecord(part []byte) ([]recorded, error) {
	zipped, err := gzip.NewReader(bytes.NewReader(part))
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(io.LimitReader(zipped, recordBytes))
	var lines []recorded
	for {
		var line recorded
		err := decoder.Decode(&line)
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
}
