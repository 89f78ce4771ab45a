/* shipped.h: the layers that the program carries. */
#ifndef GS_CLI_SHIPPED_H
#define GS_CLI_SHIPPED_H

enum { GS_MAX_SHIPPED = 256 };

/* Fills names, words[i] pointing to them; how many. */
int gs_shipped_layers(char names[][64], const char **words);

#endif
