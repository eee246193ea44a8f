// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// describeAtOnce is how many tasks ECS describes in one call.
const describeAtOnce = 100

// list asks ECS what runs in the clusters, or in all of the account where none is named.
func list(ctx context.Context, client *ecs.Client, clusters []string) (listing, error) {
	if len(clusters) == 0 {
		pages := ecs.NewListClustersPaginator(client, &ecs.ListClustersInput{})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return listing{}, fmt.Errorf("list ECS clusters: %w", err)
			}
			clusters = append(clusters, page.ClusterArns...)
		}
	}
	l := listing{clusters: clusters}
	for _, cluster := range clusters {
		tasks, err := listTasks(ctx, client, cluster)
		if err != nil {
			return listing{}, err
		}
		l.tasks = append(l.tasks, tasks...)
	}
	return l, nil
}

func listTasks(ctx context.Context, client *ecs.Client, cluster string) ([]task, error) {
	var arns []string
	pages := ecs.NewListTasksPaginator(client, &ecs.ListTasksInput{Cluster: &cluster})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list the tasks of the ECS cluster %s: %w", cluster, err)
		}
		arns = append(arns, page.TaskArns...)
	}
	var tasks []task
	for chunk := range slices.Chunk(arns, describeAtOnce) {
		out, err := client.DescribeTasks(ctx, &ecs.DescribeTasksInput{Cluster: &cluster, Tasks: chunk})
		if err != nil {
			return nil, fmt.Errorf("describe tasks of the ECS cluster %s: %w", cluster, err)
		}
		for i := range out.Tasks {
			tasks = append(tasks, taskOf(cluster, &out.Tasks[i]))
		}
	}
	return tasks, nil
}

// taskOf converts a response of ECS to the form of its events.
func taskOf(cluster string, t *types.Task) task {
	out := task{ClusterARN: cluster, TaskARN: text(t.TaskArn), LastStatus: text(t.LastStatus), Version: t.Version}
	for i := range t.Containers {
		c := &t.Containers[i]
		out.Containers = append(out.Containers, container{
			ARN: text(c.ContainerArn), Name: text(c.Name), LastStatus: text(c.LastStatus), Image: text(c.Image), Digest: text(c.ImageDigest),
		})
	}
	return out
}
