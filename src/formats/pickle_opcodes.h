// The opcodes of pickle, protocols 0 to 5, by their byte.
#pragma once

#include <cstdint>
#include <string_view>

namespace snug {

enum class PickleOp : uint8_t {
  mark = '(',
  stop = '.',
  pop = '0',
  pop_mark = '1',
  dup = '2',
  float_text = 'F',
  int_text = 'I',
  binint = 'J',
  binint1 = 'K',
  long_text = 'L',
  binint2 = 'M',
  none = 'N',
  string_text = 'S',
  binstring = 'T',
  short_binstring = 'U',
  unicode_text = 'V',
  binunicode = 'X',
  append = 'a',
  dict = 'd',
  empty_dict = '}',
  appends = 'e',
  get_text = 'g',
  binget = 'h',
  long_binget = 'j',
  list = 'l',
  empty_list = ']',
  put_text = 'p',
  binput = 'q',
  long_binput = 'r',
  setitem = 's',
  tuple = 't',
  empty_tuple = ')',
  setitems = 'u',
  binfloat = 'G',
  binbytes = 'B',
  short_binbytes = 'C',
  proto = 0x80,
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  newtrue = 0x88,
  newfalse = 0x89,
  long1 = 0x8a,
  long4 = 0x8b,
  short_binunicode = 0x8c,
  binunicode8 = 0x8d,
  binbytes8 = 0x8e,
  memoize = 0x94,
  frame = 0x95,
  bytearray8 = 0x96,
};

// Those that name, make or call objects, or need what is outside the file. Empty: none of them.
constexpr std::string_view refused_opcode(uint8_t code) {
  switch (code) {
    case 'P':
      return "PERSID";
    case 'Q':
      return "BINPERSID";
    case 'R':
      return "REDUCE";
    case 'b':
      return "BUILD";
    case 'c':
      return "GLOBAL";
    case 'i':
      return "INST";
    case 'o':
      return "OBJ";
    case 0x81:
      return "NEWOBJ";
    case 0x82:
      return "EXT1";
    case 0x83:
      return "EXT2";
    case 0x84:
      return "EXT4";
    case 0x8f:
      return "EMPTY_SET";
    case 0x90:
      return "ADDITEMS";
    case 0x91:
      return "FROZENSET";
    case 0x92:
      return "NEWOBJ_EX";
    case 0x93:
      return "STACK_GLOBAL";
    case 0x97:
      return "NEXT_BUFFER";
    case 0x98:
      return "READONLY_BUFFER";
    default:
      return "";
  }
}

}  // namespace snug
