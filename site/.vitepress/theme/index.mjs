// VitePress's own theme, with more room for code.
import theme from 'vitepress/theme'
import './style.css'

export default theme
