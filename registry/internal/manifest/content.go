// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/scanyard/scanyard/apis/text"
)

// What is kept of an image's layers and config: texts of strangers have bounds.
const (
	maxLayers     = 512
	maxCommand    = 512
	maxLabels     = 32
	maxLabelValue = 256
	maxLabelName  = 256
	maxUser       = 256
)

// Layer is one layer of an image.
type Layer struct {
	// Digest is that of the blob, DiffID that of the archive in it; "" where the config tells none.
	Digest    string
	DiffID    string
	MediaType string
	// Bytes is the size of the blob.
	Bytes int64
	// Command is the line of the history that made the layer.
	Command string
}

// Content is what an Image keeps of its manifest and config beyond what selects the image.
type Content struct {
	// MediaType is that of the manifest.
	MediaType string
	Layers    []Layer
	// LayersOmitted is the number of layers beyond the first 512, which are not kept.
	LayersOmitted int
	User          string
	Labels        map[string]string
}

// contentOf reads what an image is made of. A config that is missing or strange leaves out what it would tell.
func contentOf(layers []descriptor, config object) Content {
	c := Content{LayersOmitted: max(0, len(layers)-maxLayers)}
	diffIDs, commands := diffIDsOf(config), commandsOf(config)
	for i, d := range layers[:min(len(layers), maxLayers)] {
		layer := Layer{Digest: d.digest, MediaType: d.mediaType, Bytes: d.size}
		// Lists of another length say nothing of single layers.
		if len(diffIDs) == len(layers) && digestPattern.MatchString(diffIDs[i]) {
			layer.DiffID = diffIDs[i]
		}
		if len(commands) == len(layers) {
			layer.Command = text.CutRunes(commands[i], maxCommand)
		}
		c.Layers = append(c.Layers, layer)
	}
	settings := config.member("config")
	c.User = text.CutRunes(settings.words("User"), maxUser)
	c.Labels = labelsOf(settings.member("Labels"))
	return c
}

func diffIDsOf(config object) []string {
	list, _ := config.member("rootfs").list("diff_ids")
	ids := make([]string, 0, len(list))
	for _, entry := range list {
		ids = append(ids, wordsOf(entry))
	}
	return ids
}

// commandsOf gives the lines of the history that made layers.
func commandsOf(config object) []string {
	list, _ := config.list("history")
	commands := make([]string, 0, len(list))
	for _, entry := range list {
		o := parseObject(entry)
		if string(o["empty_layer"]) == "true" {
			continue
		}
		commands = append(commands, o.words("created_by"))
	}
	return commands
}

// labelsOf keeps the first labels by name.
func labelsOf(o object) map[string]string {
	labels := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		value, isText := o.text(name)
		if !isText || len(name) > maxLabelName {
			continue
		}
		if labels[name] = text.CutRunes(value, maxLabelValue); len(labels) == maxLabels {
			break
		}
	}
	return labels
}

func wordsOf(value json.RawMessage) string {
	var words string
	if json.Unmarshal(value, &words) != nil {
		return ""
	}
	return words
}
