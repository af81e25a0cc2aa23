package script

import "strings"

// Slots is how many slots a Redis cluster has.
const Slots = 16384

// Slot returns the cluster slot of a key: CRC16 (XMODEM) of its hash tag.
func Slot(key string) int {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crc16[byte(crc>>8)^key[i]]
	}
	return int(crc) % Slots
}

// crc16 is the CRC16 of each byte: every call on a cluster asks for a slot.
var crc16 = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc >> 15
			crc = crc<<1 ^ carry*0x1021
		}
		table[i] = crc
	}
	return table
}()
