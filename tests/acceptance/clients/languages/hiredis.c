/* hiredis: goes through the scenario. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static redisContext *client;

/* Say a step and the texts of a reply, or of the elements of an array. */
static void say(const char *step, redisReply *reply) {
    printf("%s", step);
    if (reply->type == REDIS_REPLY_ARRAY)
        for (size_t n = 0; n < reply->elements; n++) printf(" %s", reply->element[n]->str);
    else
        printf(" %s", reply->str);
    printf("\n");
    fflush(stdout);
}

static void skip(int count) {
    redisReply *reply;
    while (count-- && redisGetReply(client, (void **)&reply) == REDIS_OK) freeReplyObject(reply);
}

static redisReply *next(void) {
    redisReply *reply = NULL;
    redisGetReply(client, (void **)&reply);
    return reply;
}

int main(int count, char **arguments) {
    if (count < 3) return 1;
    const char *orders = arguments[2];
    char billing[256], audit[256];
    snprintf(billing, sizeof billing, "%s-billing", orders);
    snprintf(audit, sizeof audit, "%s-audit", orders);
    client = redisConnect("127.0.0.1", atoi(arguments[1]));
    if (client == NULL || client->err) return 1;

    say("publish", redisCommand(client, "PUBLISH %s first", orders));
    for (int n = 0; n < 9; n++) redisAppendCommand(client, "PUBLISH %s m%d", orders, n);
    printf("pipeline");
    for (int n = 0; n < 9; n++) printf(" %s", next()->str);
    redisReply *received = redisCommand(client, "RECEIVE %s COUNT 10", orders);
    const char *words[12] = {"ACK", orders};
    printf("\nreceive");
    for (size_t n = 0; n < received->elements; n++) {
        printf(" %s", received->element[n]->element[1]->str);
        words[2 + n] = received->element[n]->element[0]->str;
    }
    printf("\n");
    say("ack", redisCommandArgv(client, 2 + (int)received->elements, words, NULL));

    freeReplyObject(redisCommand(client, "PUBLISH %s second", orders));
    /* docs: */
    received = redisCommand(client, "RECEIVE %s WAIT 20", orders);
    redisReply *receipt = received->element[0]->element[0], *payload = received->element[0]->element[1];
    redisAppendCommand(client, "MULTI");
    redisAppendCommand(client, "PUBLISH %s %b", billing, payload->str, payload->len);
    redisAppendCommand(client, "PUBLISH %s %b", audit, payload->str, payload->len);
    redisAppendCommand(client, "ACK %s %s", orders, receipt->str);
    redisAppendCommand(client, "EXEC");
    skip(4); /* the replies before that to EXEC: OK, QUEUED, QUEUED, QUEUED */
    redisReply *replies = next();
    /* docs end */
    say("exec", replies);
    const char *refused[] = {"NOSUCH", "ACK %s %s"}, *steps[] = {"unknown", "refused"};
    for (int n = 0; n < 2; n++) {
        redisAppendCommand(client, "MULTI");
        redisAppendCommand(client, "PUBLISH %s never", billing);
        redisAppendCommand(client, refused[n], orders, receipt->str);
        redisAppendCommand(client, "EXEC");
        skip(3);
        say(steps[n], next());
    }
    redisAppendCommand(client, "MULTI");
    redisAppendCommand(client, "PUBLISH %s never", billing);
    skip(2);
    say("discard", redisCommand(client, "DISCARD"));

    freeReplyObject(redisCommand(client, "PUBLISH %s third", orders));
    printf("restart\n");
    fflush(stdout);
    getchar();
    while ((received = redisCommand(client, "RECEIVE %s", orders)) == NULL || received->elements == 0) {
        usleep(100000);
        if (client->err) redisReconnect(client);
    }
    redisReply *acked = redisCommand(client, "ACK %s %s", orders, received->element[0]->element[0]->str);
    printf("again %s %s", received->element[0]->element[1]->str, acked->str);
    say("", redisCommand(client, "PUBLISH %s last", orders));
    redisFree(client);
    return 0;
}
