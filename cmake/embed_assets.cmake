# Run while building: writes OUT, a source file with the page's HTML, CSS and scripts as texts (src/page/assets.h).
#   cmake -D SOURCE=src/page/assets -D SCRIPTS="a.js;b.js" -D OUT=assets.cpp -P embed_assets.cmake
function(text_of out)
  set(parts "")
  foreach(name ${ARGN})
    file(READ ${SOURCE}/${name} content)
    # A literal has at most 65,536 characters by the standard; neighbours are one.
    string(LENGTH "${content}" left)
    set(at 0)
    while(at LESS left)
      string(SUBSTRING "${content}" ${at} 8000 piece)
      string(APPEND parts "\n    R\"asset~(${piece})asset~\"")
      math(EXPR at "${at} + 8000")
    endwhile()
  endforeach()
  set(${out} "${parts}" PARENT_SCOPE)
endfunction()

text_of(html page.html)
text_of(style page.css)
text_of(script ${SCRIPTS})
file(WRITE ${OUT} "#include \"page/assets.h\"

namespace snug {

const std::string_view kPageHtml =${html};
const std::string_view kPageStyle =${style};
const std::string_view kPageScript =${script};

}  // namespace snug
")
