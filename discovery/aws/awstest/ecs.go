// SPDX-License-Identifier: Apache-2.0

package awstest

import (
	"maps"
	"slices"
	"strconv"
)

const (
	ecsService = "AmazonEC2ContainerServiceV20141113"
	// pageSize is small, so that tests turn pages; ECS has 100.
	pageSize = 2
)

// Task is a task of ECS, in the form of the API.
type Task struct {
	ARN        string      `json:"taskArn"`
	Cluster    string      `json:"clusterArn"`
	LastStatus string      `json:"lastStatus"`
	Version    int64       `json:"version"`
	Containers []Container `json:"containers"`
}

// Container is a container of a Task.
type Container struct {
	ARN         string `json:"containerArn"`
	Name        string `json:"name"`
	LastStatus  string `json:"lastStatus"`
	Image       string `json:"image"`
	ImageDigest string `json:"imageDigest,omitempty"`
}

// SetTasks says what runs in a cluster.
func (s *Server) SetTasks(cluster string, tasks ...Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[cluster] = tasks
}

// page cuts a page out of a list. The token is where the next one begins.
func page(all []string, token string) (part []string, next string, refused *refusal) {
	from := 0
	if token != "" {
		n, err := strconv.Atoi(token)
		if err != nil || n < 0 || n > len(all) {
			return nil, "", refuse("InvalidParameterException", "nextToken is %q", token)
		}
		from = n
	}
	to := min(from+pageSize, len(all))
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	return all[from:to], next, nil
}

func (s *Server) listClusters(body []byte) (any, *refusal) {
	var in struct {
		NextToken  string `json:"nextToken"`
		MaxResults int    `json:"maxResults"`
	}
	if refused := decode(body, &in); refused != nil {
		return nil, refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	part, next, refused := page(slices.Sorted(maps.Keys(s.tasks)), in.NextToken)
	return withToken(map[string]any{"clusterArns": part}, next), refused
}

func (s *Server) listTasks(body []byte) (any, *refusal) {
	var in struct {
		Cluster       string `json:"cluster"`
		NextToken     string `json:"nextToken"`
		MaxResults    int    `json:"maxResults"`
		DesiredStatus string `json:"desiredStatus"`
	}
	if refused := decode(body, &in); refused != nil {
		return nil, refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tasks, ok := s.tasks[in.Cluster]
	if !ok {
		return nil, refuse("ClusterNotFoundException", "Cluster not found.")
	}
	var arns []string
	for _, t := range tasks {
		arns = append(arns, t.ARN)
	}
	part, next, refused := page(arns, in.NextToken)
	return withToken(map[string]any{"taskArns": part}, next), refused
}

func (s *Server) describeTasks(body []byte) (any, *refusal) {
	var in struct {
		Cluster string   `json:"cluster"`
		Tasks   []string `json:"tasks"`
		Include []string `json:"include"`
	}
	if refused := decode(body, &in); refused != nil {
		return nil, refused
	}
	if len(in.Tasks) == 0 || len(in.Tasks) > 100 {
		return nil, refuse("InvalidParameterException", "Tasks must have 1 to 100 entries.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := slices.DeleteFunc(slices.Clone(s.tasks[in.Cluster]), func(t Task) bool { return !slices.Contains(in.Tasks, t.ARN) })
	return map[string]any{"tasks": found, "failures": []any{}}, nil
}

func withToken(answer map[string]any, next string) map[string]any {
	if next != "" {
		answer["nextToken"] = next
	}
	return answer
}
