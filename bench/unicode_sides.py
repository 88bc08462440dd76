"""Which Unicode the two sides of bench/tokenizer_agreement.py know, asked of a code point: category, normal forms, lower case.

    reasons([0x1C89, 0x0898])   # {"Cn here, Lu there; another lower case": [0x1C89], "another NFC": [0x0898]}

Needs the libraries that Snug uses (PCRE2, utf8proc) and the `tokenizers` package.
"""
import ctypes
import ctypes.util
import unicodedata

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()

# A mark of the highest combining class before a character, one of the lowest after it: NFC sorts them if it is a mark, too.
BETWEEN_MARKS = "a\u0345{0}\u0334"


class Ours:
    """The answers of the libraries that Snug uses: PCRE2 of categories, utf8proc of normal forms and case."""

    def __init__(self):
        self.pcre2, self.utf8proc = (ctypes.CDLL(ctypes.util.find_library(name)) for name in ("pcre2-8", "utf8proc"))
        for function in ("utf8proc_NFC", "utf8proc_NFKC", "utf8proc_unicode_version", "utf8proc_category_string"):
            getattr(self.utf8proc, function).restype = ctypes.c_char_p
        for function in ("pcre2_compile_8", "pcre2_match_data_create_8"):
            getattr(self.pcre2, function).restype = ctypes.c_void_p
        unicode_version, text = 10, ctypes.create_string_buffer(64)
        self.pcre2.pcre2_config_8(unicode_version, text)
        tables = self.utf8proc.utf8proc_unicode_version().decode()
        self.versions = f"PCRE2 has Unicode {text.value.decode()}, utf8proc {tables}"

    def category(self, points):
        utf, ucp, error = 0x00080000, 0x00020000, ctypes.create_string_buffer(64)
        match = ctypes.c_void_p(self.pcre2.pcre2_match_data_create_8(1, None))
        out = {}
        for category in CATEGORIES:
            pattern = rf"\p{{{category}}}".encode()
            code = self.pcre2.pcre2_compile_8(pattern, ctypes.c_size_t(len(pattern)), utf | ucp, error, error, None)
            for c in points:
                text = chr(c).encode()
                if self.pcre2.pcre2_match_8(ctypes.c_void_p(code), text, ctypes.c_size_t(len(text)), ctypes.c_size_t(0), 0, match, None) > 0:
                    out[c] = category
        return out

    def nfc(self, text):
        return self.utf8proc.utf8proc_NFC(text.encode()).decode()

    def nfkc(self, text):
        return self.utf8proc.utf8proc_NFKC(text.encode()).decode()

    def lower(self, c):
        return chr(self.utf8proc.utf8proc_tolower(c))

    def kind_in_bert(self, c):
        category = self.utf8proc.utf8proc_category_string(c).decode()
        return {"C": "control", "P": "punctuation"}.get(category[0], "mark" if category == "Mn" else "letter")


class Theirs:
    """The same of the package, through its own normalizers and patterns."""

    def __init__(self):
        from tokenizers import Regex, normalizers, pre_tokenizers
        plain = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
        self.without_control = normalizers.BertNormalizer(**(plain | dict(clean_text=True))).normalize_str
        self.without_marks = normalizers.BertNormalizer(**(plain | dict(strip_accents=True))).normalize_str
        self.words = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
        self.replace = lambda pattern: normalizers.Replace(Regex(pattern), "!")
        self.nfc, self.nfkc = normalizers.NFC().normalize_str, normalizers.NFKC().normalize_str
        self.lower = lambda c: normalizers.Lowercase().normalize_str(chr(c))

    def category(self, points):
        out = {}
        for category in CATEGORIES:
            replaced = self.replace(rf"\p{{{category}}}").normalize_str("".join(map(chr, points)))
            out |= {c: category for c, is_now in zip(points, replaced, strict=True) if is_now == "!" != chr(c)}
        return out

    def kind_in_bert(self, c):
        text = f"a{chr(c)}b"
        if self.without_control(text) == "ab":
            return "control"
        if self.without_marks(text) == "ab":
            return "mark"
        return "punctuation" if len(self.words(text)) == 3 else "letter"


def reasons(points):
    """Code points by how the two sides' Unicode differs on them."""
    if not points:
        return {}
    ours, theirs = Ours(), Theirs()
    here, there, groups = ours.category(points), theirs.category(points), {}
    for c in points:
        words = []
        if here.get(c, "Cn") != there.get(c, "Cn"):
            words.append(f"{here.get(c, 'Cn')} here, {there.get(c, 'Cn')} there")
        around = BETWEEN_MARKS.format(chr(c)) + " " + unicodedata.normalize("NFD", chr(c))
        if ours.nfc(around) != theirs.nfc(around):
            words.append("another NFC")
        elif ours.nfkc(around) != theirs.nfkc(around):
            words.append("another NFKC")
        if ours.lower(c) != theirs.lower(c):
            words.append("another lower case")
        if not words and ours.kind_in_bert(c) != theirs.kind_in_bert(c):
            words.append(f"in BERT's tables {ours.kind_in_bert(c)} here, {theirs.kind_in_bert(c)} there")
        groups.setdefault("; ".join(words) or "otherwise", []).append(c)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))
