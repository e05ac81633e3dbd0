/* SPDX-License-Identifier: MIT */
/* The subcommands; each returns the exit status of the program. */
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include <stdio.h>

int cmd_run(int argc, char **argv);
int cmd_secrets_proxy_run(int argc, char **argv); /* as users of secrets-proxy write it */
int cmd_audit(int argc, char **argv);
int cmd_carrier(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_gate(int argc, char **argv);
int cmd_gateway(int argc, char **argv);
int cmd_gateway_keeper(int argc, char **argv);
int cmd_keeper(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_revoke(int argc, char **argv);
int cmd_drain(int argc, char **argv);
int cmd_shared_keeper(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_spend(int argc, char **argv);
int cmd_token(int argc, char **argv);

/* Prints what `warder run` takes. */
void cmd_run_help(FILE *out);

#endif
