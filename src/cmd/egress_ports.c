/* SPDX-License-Identifier: MIT */
/* Ports of the policy. What is wrong with a rule the keeper says, which reads the same ones. */
#include "cmd/egress_ports.h"

#include "policy/rule.h"

static void add(struct policy *policy, const char *text)
{
	struct err ignored;

	if (policy_add(policy, text, true, &ignored) < 0)
		return;
}

const uint16_t *egress_ports(struct run_config *config, size_t *ret_count)
{
	const struct keeper_config *keeper = &config->keeper;
	uint16_t *ports = arena_alloc(&config->arena, POLICY_PORTS_MAX * sizeof(*ports));
	struct policy policy = { .count = 0 };

	for (size_t i = 0; i < keeper->rule_count; i++)
		if (keeper->rules[i].is_allow)
			add(&policy, keeper->rules[i].text);
	for (size_t i = 0; i < keeper->secret_count; i++)
		for (size_t j = 0; j < keeper->secrets[i].host_count; j++)
			add(&policy, keeper->secrets[i].hosts[j]);
	*ret_count = policy_ports(&policy, ports);
	policy_fini(&policy);
	return ports;
}
