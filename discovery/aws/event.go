// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"encoding/json"
	"errors"
	"fmt"
)

// taskStateChange is the detail-type of the one kind of event that says what runs.
const taskStateChange = "ECS Task State Change"

// States of a container, as ECS calls them.
const (
	containerPending = "PENDING"
	containerRunning = "RUNNING"
	containerStopped = "STOPPED"
)

// maxContainers is far more than a task definition may have (10), and bounds what one message can start.
const maxContainers = 1000

// event is the part of an EventBridge event that discovery reads.
type event struct {
	DetailType string `json:"detail-type"`
	Source     string `json:"source"`
	ID         string `json:"id"`
	Detail     task   `json:"-"`
}

// task is the detail of an ECS Task State Change.
type task struct {
	ClusterARN string      `json:"clusterArn"`
	TaskARN    string      `json:"taskArn"`
	LastStatus string      `json:"lastStatus"`
	Version    int64       `json:"version"`
	Containers []container `json:"containers"`
}

type container struct {
	ARN        string `json:"containerArn"`
	Name       string `json:"name"`
	LastStatus string `json:"lastStatus"`
	Image      string `json:"image"`
	Digest     string `json:"imageDigest"`
}

// parseEvent reads the body of a message. The detail is read only of events that are
// understood: others may have any shape.
func parseEvent(body string) (event, error) {
	var e struct {
		event
		Detail json.RawMessage `json:"detail"`
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return event{}, fmt.Errorf("the message is not an EventBridge event: %w", err)
	}
	if e.DetailType == "" {
		return event{}, errors.New("the message is not an EventBridge event: it has no detail-type")
	}
	if e.DetailType != taskStateChange {
		return e.event, nil
	}
	if err := json.Unmarshal(e.Detail, &e.event.Detail); err != nil {
		return event{}, fmt.Errorf("read the detail of an event of type %s: %w", taskStateChange, err)
	}
	if n := len(e.event.Detail.Containers); n > maxContainers {
		return event{}, fmt.Errorf("an event has %d containers, more than %d", n, maxContainers)
	}
	return e.event, nil
}
