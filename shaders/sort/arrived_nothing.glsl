// <arrived>: nothing is noted.
void arrived(uint key, uint place) {}
