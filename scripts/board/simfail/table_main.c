// SPDX-License-Identifier: MIT
/* The table alone, as JSON: needs no GPU headers, so tests can have it anywhere. */
#include "scenario.h"

int main(void)
{
	list_json();
	return 0;
}
